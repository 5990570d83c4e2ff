"""Entry point of ``python -m tuner.worker``, which takes the options of ``tuner worker``."""

from tuner.cli.app import worker_main

worker_main()

"""``python -m tuner.worker``."""

from tuner.cli.app import worker_main

worker_main()

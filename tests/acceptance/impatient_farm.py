"""A worker that gives its job back after 5 s without any RPC server, instead of 30 s.

It is run as ``python -m tests.acceptance.impatient_farm``.
"""

from tuner.cli.app import worker_main
from tuner.farm import runner

PATIENCE_SECONDS = 5.0

if __name__ == "__main__":
    runner.PATIENCE_SECONDS = PATIENCE_SECONDS
    worker_main()

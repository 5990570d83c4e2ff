"""``python -m tests.acceptance.impatient_farm``: a worker that gives its job back after five
seconds without any RPC server, instead of thirty."""

from tuner.cli.app import worker_main
from tuner.farm import runner

PATIENCE_SECONDS = 5.0

if __name__ == "__main__":
    runner.PATIENCE_SECONDS = PATIENCE_SECONDS
    worker_main()

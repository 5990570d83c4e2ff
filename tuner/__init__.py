"""How workloads are tuned: search, builds, measurement, worker, command line and Python client."""

__version__ = "0.1.0"

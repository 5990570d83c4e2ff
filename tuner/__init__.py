"""HOW it is tuned: search, measuring, the worker, the command line, the client."""

__version__ = "0.1.0"

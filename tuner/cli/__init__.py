"""The command line ``tuner``: options, reports and errors; its commands are in ``commands``."""

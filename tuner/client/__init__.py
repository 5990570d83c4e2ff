"""Python clients: order jobs, wait for them, and load and call tuned kernels."""

from tuner.client.client import Client

__all__ = ["Client"]

"""How programs get a tuned kernel."""

from tuner.client.client import Client

__all__ = ["Client"]

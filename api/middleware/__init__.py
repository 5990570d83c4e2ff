"""ASGI middleware and exception handlers that every request passes through."""

"""A check, as the first step of the start, that the service can listen on its port."""

from __future__ import annotations

import socket

from api.server.lifespan import StartupError


def check_port_free(host: str, port: int) -> None:
    """Raise StartupError if the service can't listen on this host and port.

    uvicorn would notice only after the startup, and would report it among its log lines."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(address)
    except OSError as error:
        raise StartupError(
            f"can't listen on {host}, port {port}: {error.strerror or error}; stop what has it, or "
            "choose others with TUNER_HOST and TUNER_PORT"
        ) from error

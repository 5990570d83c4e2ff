"""A check, as the first step of the start, that the service can listen on its port."""

from __future__ import annotations

import errno
import socket

from api.server.lifespan import StartupError

_WAYS_OUT = {
    errno.EADDRINUSE: "stop what has it, or choose others with TUNER_HOST and TUNER_PORT",
    errno.EADDRNOTAVAIL: "choose an address of this machine with TUNER_HOST",
}


def check_port_free(host: str, port: int) -> None:
    """Raise StartupError if the service can't listen on this host and port.

    uvicorn would notice only after the startup, and would report it among its log lines."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise StartupError(
            f"can't resolve the host {host}: {why}; {_WAYS_OUT[errno.EADDRNOTAVAIL]}"
        ) from error
    try:
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(address)
    except OSError as error:
        way_out = _WAYS_OUT.get(error.errno or 0, "choose others with TUNER_HOST and TUNER_PORT")
        raise StartupError(
            f"can't listen on {host}, port {port}: {error.strerror or error}; {way_out}"
        ) from error

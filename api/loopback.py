"""Whether nobody but this machine reaches an address."""

from __future__ import annotations

import socket
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope


def binds_loopback(host: str) -> bool:
    """Whether a service on this name or address is on loopback only; False where the name is
    unknown."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_loopback(str(address[0])) for *_, address in found)


def came_by_loopback(scope: Scope) -> bool:
    """Whether the request reached the service at a loopback address. A Unix socket has no address,
    and neither has a test in process; both are this machine."""
    server = scope.get("server")
    return server is None or _loopback(server[0])


@lru_cache(256)
def _loopback(host: str) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return True
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

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
    """Whether the request reached the service at a loopback address, and was sent to one: a page
    of another site may have its own name resolved to this machine (DNS rebinding). A Unix socket
    has no address, and neither has a test in process; both are this machine."""
    server = scope.get("server")
    if server is None or not _is_address(server[0]):
        return True
    return _loopback(server[0]) and all(
        _names_loopback(value) for name, value in scope["headers"] if name == b"host"
    )


@lru_cache(256)
def _names_loopback(host: bytes) -> bool:
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and _loopback(name)


@lru_cache(256)
def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


@lru_cache(256)
def _loopback(host: str) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return True
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

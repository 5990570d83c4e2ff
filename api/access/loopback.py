"""Checks whether an address is loopback, which only this machine can reach."""

from __future__ import annotations

import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.types import Scope


def binds_loopback(host: str) -> bool:
    """Return whether a service that listens on this name or address is on loopback only.

    Return False if the name is unknown."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_is_loopback(str(address[0])) for *_, address in found)


def came_by_loopback(scope: Scope) -> bool:
    """Return whether the request came to a loopback address, and names loopback as its host.

    The address alone is not enough: another site may let its own name resolve to this machine (DNS
    rebinding). Requests over a Unix socket, or of a test in this process, have no server address;
    they come from this machine."""
    server = scope.get("server")
    if server is None or _address(server[0]) is None:
        return True
    return _is_loopback(server[0]) and all(
        _names_loopback(value) for name, value in scope["headers"] if name == b"host"
    )


@lru_cache(256)
def _names_loopback(host: bytes) -> bool:
    """Return whether a Host header, with or without a port, names this machine."""
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_loopback(name)


@lru_cache(256)
def _is_loopback(host: str) -> bool:
    """Return whether the text is a loopback address."""
    address = _address(host)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address is not None and address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the text as an address without its zone, or None if it is not an address."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None

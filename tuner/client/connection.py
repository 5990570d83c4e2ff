"""The connection of a client with a service."""

from __future__ import annotations

import os
import re
import ssl

import httpx2

from tuner.client.parsed import ENCODINGS
from tuner.errors import ServiceUnreachable, WrongArgument

MOST_SECONDS = 86_400
"""Of a timeout: a day."""
SCHEMES = ("http", "https")
UNPROXIED = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
"""This machine: a proxy that the environment names has another loopback."""


def opened(url: str, timeout: float, key: str | None) -> httpx2.Client:
    """With the key, or the environment's if it is None. Nothing is asked yet. Raises WrongArgument
    and ServiceUnreachable."""
    _must_be_seconds(timeout)
    key = os.environ.get("TUNER_API_KEY") if key is None else key
    headers = {"Accept-Encoding": ENCODINGS[1]}
    if key:
        _must_be_key(key)
        headers["Authorization"] = f"Bearer {key}"
    # without TLS nobody's certificates are read, which takes 20 ms
    verify = True if url.lower().startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        made = httpx2.Client(
            base_url=url, timeout=timeout, headers=headers, mounts=UNPROXIED, verify=verify
        )
    except httpx2.InvalidURL as error:
        raise ServiceUnreachable(_without_password(url), str(error)) from error
    except (ValueError, ImportError, OSError) as error:  # of proxies and certificates
        why = f"{error}; look at the environment's proxies (ALL_PROXY) and SSL_CERT_FILE"
        raise ServiceUnreachable(_without_password(url), why) from error
    if made.base_url.scheme not in SCHEMES:
        raise ServiceUnreachable(shown(made), "a url begins with http:// or https://")
    return made


def shown(connection: httpx2.Client) -> str:
    """Its URL without a password."""
    return str(connection.base_url.copy_with(userinfo=b""))


def _without_password(url: str) -> str:
    return re.sub("//[^/]*@", "//", url)


def _must_be_seconds(timeout: float) -> None:
    """Raises WrongArgument."""
    if not isinstance(timeout, int | float) or not 0 < timeout <= MOST_SECONDS:
        raise WrongArgument(
            f"timeout is {timeout!r:.80}: give seconds, more than 0 and at most {MOST_SECONDS}"
        )


def _must_be_key(key: str) -> None:
    """Raises WrongArgument, which does not show it."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise WrongArgument(
            "the API key has a space, a line's end or another character that no key has; look at "
            "key= or TUNER_API_KEY"
        )

"""The HTTP connection of a client to a service."""

from __future__ import annotations

import os
import re
import ssl
from functools import partial

import httpx2

from tuner.client.responses import ENCODINGS
from tuner.errors import ServiceUnreachable, WrongArgument

MOST_SECONDS = 86_400
"""The longest timeout: a day."""
SCHEMES = ("http", "https")
UNPROXIED = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
"""This machine is reached without a proxy: a proxy would take ``localhost`` for its own host."""


class Connection:
    """The HTTP client of a process for the service at ``url``.

    A process that was forked gets one of its own: on a shared connection, each of two processes
    would read answers to the other's requests. Raises what :func:`open_connection` raises.
    """

    def __init__(self, url: str, timeout: float, key: str | None) -> None:
        self._open = partial(open_connection, url, timeout, key)
        self._http, self._process = self._open(), os.getpid()

    @property
    def http(self) -> httpx2.Client:
        if self._process != os.getpid():
            self._http, self._process = self._open(), os.getpid()
        return self._http


def open_connection(url: str, timeout: float, key: str | None) -> httpx2.Client:
    """Return an HTTP client for the service at ``url``; no request is sent yet.

    ``timeout`` is in seconds. If ``key`` is None, the API key is that of TUNER_API_KEY. Raises
    WrongArgument for values that can't be a url, a timeout or a key, and ServiceUnreachable for a
    URL, proxy or certificate that can't be used.
    """
    if not isinstance(url, str):
        raise WrongArgument(f"url is a {type(url).__name__}: give a text, as http://host:8000")
    _must_be_seconds(timeout)
    key = os.environ.get("TUNER_API_KEY") if key is None else key
    headers = {"Accept-Encoding": ENCODINGS[1]}
    if key:
        _must_be_key(key)
        headers["Authorization"] = f"Bearer {key}"
    # Without TLS no certificates are needed. An empty context saves the 20 ms of reading them.
    verify = True if url.lower().startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        made = httpx2.Client(
            base_url=url, timeout=timeout, headers=headers, mounts=UNPROXIED, verify=verify
        )
    except httpx2.InvalidURL as error:
        raise ServiceUnreachable(_without_password(url), str(error)) from error
    except (ValueError, ImportError, OSError) as error:  # a bad proxy or certificate
        why = f"{error}; look at the environment's proxies (ALL_PROXY) and SSL_CERT_FILE"
        raise ServiceUnreachable(_without_password(url), why) from error
    if made.base_url.scheme not in SCHEMES:
        raise ServiceUnreachable(
            url_without_password(made), "a url begins with http:// or https://"
        )
    return made


def url_without_password(connection: httpx2.Client) -> str:
    """Return the connection's URL without user name and password."""
    return str(connection.base_url.copy_with(userinfo=b""))


def _without_password(url: str) -> str:
    return re.sub("//[^/]*@", "//", url)


def _must_be_seconds(timeout: float) -> None:
    """Raise WrongArgument unless the timeout is a number of seconds within the limits."""
    if not isinstance(timeout, int | float) or not 0 < timeout <= MOST_SECONDS:
        raise WrongArgument(
            f"timeout is {timeout!r:.80}: give seconds, more than 0 and at most {MOST_SECONDS}"
        )


def _must_be_key(key: str) -> None:
    """Raise WrongArgument if the text can't be an API key. The message does not show the text."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise WrongArgument(
            "the API key has a space, a line's end or another character that no key has; look at "
            "key= or TUNER_API_KEY"
        )

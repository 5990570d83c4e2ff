"""Access rules: which caller may send which request, and how often.

GET needs the right to read, and every other method the right to submit, so a new route is guarded
by its method. While the database has no key, callers on loopback may do everything and all others
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import ip_address

from sqlalchemy import Engine
from starlette.requests import Request
from starlette.types import Scope

from api.access import origin
from api.access.keyring import Keyring
from api.access.loopback import came_by_loopback
from api.access.rate_limiter import RateLimiter
from api.problems.problems import Problem
from api.settings import Settings
from db.access import keys
from db.access.keys import Key
from db.access.quota import Orderer
from db.sql.choices import KeyScope

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
KEY_PAGE = "/ui/key"
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", KEY_PAGE})
"""Paths that never need a key: probes, and the page that asks for a key."""
PUBLIC_PREFIX = "/static/"  # the files of the pages, which need no key either
COOKIE = "convtune_key"
UNKNOWN_ADDRESS = "unknown"
REALM = 'Bearer realm="convtune"'
KEY_HINT = "send one as Authorization: Bearer ct_…; `tuner keys create` makes one"


@dataclass(frozen=True)
class Caller:
    """The sender of a request: a valid key, or an address if there is none."""

    key: Key | None
    address: str
    needs_key: bool  # whether the database has any key

    @property
    def name(self) -> str:
        """The name under which the caller's requests and unfinished jobs are counted."""
        return f"address {self.address}" if self.key is None else f"key {self.key.id}"

    def may(self, scope: KeyScope) -> bool:
        """Return whether the caller has this scope. While there is no key, every caller has it."""
        return not self.needs_key or (self.key is not None and self.key.may(scope))

    @property
    def is_limited(self) -> bool:
        """Whether the limits on requests and unfinished jobs apply. Keys of scope admin have no
        limits."""
        return self.key is None or not self.key.may("admin")


class Access:
    """The access rules of one service."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.keyring = Keyring(engine)
        self.requires_key_to_read = settings.require_key_to_read
        rate = settings.requests_per_second
        self._rate_limiter = None if rate is None else RateLimiter(rate)
        self._unfinished = settings.max_unfinished_jobs
        self._trusts_proxies = settings.trusted_proxies is not None

    def needs_check(self, scope: Scope) -> bool:
        """Return whether the request must pass :meth:`authorize`.

        If reading needs no key, nearly all reads skip it and cost no more than this check."""
        path: str = scope["path"]
        if scope["method"] not in SAFE_METHODS or path == KEY_PAGE:
            return True
        if is_public(path):
            return False
        if self.requires_key_to_read or self._rate_limiter is not None:
            return True
        return path == "/" or path.startswith("/ui/") or not came_by_loopback(scope)

    async def authorize(self, request: Request) -> None:
        """Set ``request.state.caller``, and count the request.

        Raise Problem if the caller may not send it, or sends too many. Raise DatabaseUnavailable
        if the keys can't be read."""
        path = request.scope["path"]  # request.url trusts headers
        reads = request.method in SAFE_METHODS
        found = await self.keyring.current()
        token = bearer(request)
        if token is None and (reads or path.startswith("/ui/")):
            # A browser sends its cookie with requests of other sites, too. That does no harm if
            # nothing is written, or if the form must come from our page (api/web/pages.py).
            token = request.cookies.get(COOKIE)
        key = None if token is None else found.get(keys.digest(token))
        valid = None if key is None or key.expired else key
        caller = request.state.caller = Caller(valid, self._address(request), bool(found))
        if valid is not None:
            request.state.log["key"] = valid.name
        self._count(caller)
        if is_public(path):
            return
        if not found:
            if not reads and not path.startswith("/ui/") and origin.is_cross_origin(request):
                raise _key_required("a page of another site sent this, and there is no key yet")
            if came_by_loopback(request.scope):
                return
            raise _key_required(
                "there is no key yet, and without one only requests over loopback are answered"
            )
        if reads and not self.requires_key_to_read:
            return
        if valid is None:
            if token is None:
                raise _key_required("this needs a key")
            said = "is not known, or was revoked" if key is None else "has expired"
            raise Problem(
                "key-not-valid",
                f"the key {said}; {KEY_HINT}",
                headers={"WWW-Authenticate": f'{REALM}, error="invalid_token"'},
            )
        needed: KeyScope = "read" if reads else "submit"
        if not valid.may(needed):
            raise Problem(
                "scope-too-small",
                f"the key {valid.name} has scope {valid.scope}, but this needs {needed}; "
                "send a key that has it",
                headers={
                    "WWW-Authenticate": f'{REALM}, error="insufficient_scope", scope="{needed}"'
                },
            )

    async def may_keep_reading(self, caller: Caller) -> bool:
        """Return whether a caller who began to read may go on.

        The key may have expired or been revoked meanwhile. Raise DatabaseUnavailable."""
        if not self.requires_key_to_read or caller.key is None:
            return True
        found = await self.keyring.current()
        return any(key.id == caller.key.id and not key.expired for key in found.values())

    def needs_key(self, method: str, path: str) -> KeyScope | None:
        """Return the scope that the route needs by the keys as last read; None: it needs no key."""
        if not self.keyring.known or is_public(path):
            return None
        if method.upper() in SAFE_METHODS:
            return "read" if self.requires_key_to_read else None
        return "submit"

    def orderer(self, caller: Caller) -> Orderer:
        """Return the orderer of the caller's jobs, with the limit on unfinished ones."""
        return Orderer(caller.name, self._unfinished if caller.is_limited else None)

    def _address(self, request: Request) -> str:
        """Return the caller's IP address, or UNKNOWN_ADDRESS.

        The address is unknown if a proxy passed on a text that is not an address. It is unknown,
        too, if no proxy is trusted but the request has an X-Forwarded-For header: the server may
        have believed the header."""
        if request.client is None or (
            "x-forwarded-for" in request.headers and not self._trusts_proxies
        ):
            return UNKNOWN_ADDRESS
        try:
            return str(ip_address(request.client.host))
        except ValueError:
            return UNKNOWN_ADDRESS

    def _count(self, caller: Caller) -> None:
        """Count a request of the caller. Raise Problem if there are too many."""
        if self._rate_limiter is None or not caller.is_limited:
            return
        wait = self._rate_limiter.acquire(caller.name)
        if wait > 0:
            raise Problem(
                "too-many-requests",
                f"{caller.name} may send {self._rate_limiter.per_second:g} requests a second "
                f"(TUNER_REQUESTS_PER_SECOND); wait {math.ceil(wait)} s",
                headers={"Retry-After": str(math.ceil(wait))},
                limit={"requests_per_second": self._rate_limiter.per_second},
            )


def is_public(path: str) -> bool:
    """Return whether a path never needs a key."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIX)


def bearer(request: Request) -> str | None:
    """Return the token of the Authorization header, None if it has no bearer token."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _key_required(why: str) -> Problem:
    return Problem("key-required", f"{why}; {KEY_HINT}", headers={"WWW-Authenticate": REALM})

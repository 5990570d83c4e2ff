"""Who may do what: keys, their scopes, and how often somebody may ask.

To read is GET, everything else is to submit: a route that is added is guarded by its method. While
the database has no key, whoever reaches the service on loopback may do all, and nobody else
anything.
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
from api.access.rates import Rates
from api.problems.problems import Problem
from api.settings import Settings
from db.access import keys
from db.access.keys import Key
from db.access.quota import Orderer
from db.sql.choices import Scope as KeyScope

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
KEY_PAGE = "/ui/key"
OPEN = frozenset({"/healthz", "/readyz", KEY_PAGE})
"""What answers without a key whatever is set: probes, and the page that asks for a key."""
OPEN_BELOW = "/static/"  # the files of that page
COOKIE = "convtune_key"
UNKNOWN = "unknown"
REALM = 'Bearer realm="convtune"'
WAY_OUT = "send one as Authorization: Bearer ct_…; `tuner keys create` makes one"


@dataclass(frozen=True)
class Caller:
    """Who asks: a key, or an address if there is none."""

    key: Key | None
    address: str
    needs_key: bool  # whether there are keys at all

    @property
    def name(self) -> str:
        return f"address {self.address}" if self.key is None else f"key {self.key.id}"

    def may(self, scope: KeyScope) -> bool:
        return not self.needs_key or (self.key is not None and self.key.may(scope))


class Access:
    """The rules of one service."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.keyring = Keyring(engine)
        self.guards_reading = settings.require_key_to_read
        rate = settings.requests_per_second
        self._rates = None if rate is None else Rates(rate)
        self._unfinished = settings.max_unfinished_jobs
        self._believes_proxies = settings.trusted_proxies is not None

    def concerns(self, scope: Scope) -> bool:
        """Whether the request must be looked at. Where reading needs no key, nearly none of it
        must: this is all that it costs then."""
        path: str = scope["path"]
        if scope["method"] not in SAFE or path == KEY_PAGE:
            return True
        if is_open(path):
            return False
        if self.guards_reading or self._rates is not None:
            return True
        return path == "/" or path.startswith("/ui/") or not came_by_loopback(scope)

    async def admit(self, request: Request) -> None:
        """Leaves the caller in ``request.state.caller``. Raises Problem, DatabaseUnavailable."""
        path, reads = request.scope["path"], request.method in SAFE  # no URL made of headers
        found = await self.keyring.current()
        token = bearer(request)
        if token is None and (reads or path.startswith("/ui/")):
            # Browsers send a cookie whoever made them ask. It can do no harm where nothing is
            # written, nor where the form must come from our own page (api/web/pages.py).
            token = request.cookies.get(COOKIE)
        key = None if token is None else found.get(keys.digest(token))
        valid = None if key is None or key.expired else key
        caller = request.state.caller = Caller(valid, self._address(request), bool(found))
        if valid is not None:
            request.state.log["key"] = valid.name
        self._count(caller)
        if is_open(path):
            return
        if not found:
            if not reads and not path.startswith("/ui/") and origin.foreign(request):
                raise _key_required("a page of another site sent this, and there is no key yet")
            if came_by_loopback(request.scope):
                return
            raise _key_required("there is no key yet, and without one only loopback is answered")
        if reads and not self.guards_reading:
            return
        if valid is None:
            if token is None:
                raise _key_required("this needs a key")
            said = "is not known, or was revoked" if key is None else "has expired"
            raise Problem(
                "key-not-valid",
                f"the key {said}; {WAY_OUT}",
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

    async def still_reads(self, caller: Caller) -> bool:
        """Whether who began to read may go on: a key may have been revoked since, or expired.
        Raises DatabaseUnavailable."""
        if not self.guards_reading or caller.key is None:
            return True
        found = await self.keyring.current()
        return any(key.id == caller.key.id and not key.expired for key in found.values())

    def needs_key(self, method: str, path: str) -> KeyScope | None:
        """The scope without which the route refuses, by the keys as they were last read."""
        if not self.keyring.known or is_open(path):
            return None
        if method.upper() in SAFE:
            return "read" if self.guards_reading else None
        return "submit"

    def orderer(self, caller: Caller) -> Orderer:
        return Orderer(caller.name, self._unfinished)

    def _address(self, request: Request) -> str:
        """Unknown where it is none, as text that a proxy passed on, or where nobody told us to
        believe a header that the server may have believed."""
        if request.client is None or (
            "x-forwarded-for" in request.headers and not self._believes_proxies
        ):
            return UNKNOWN
        try:
            return str(ip_address(request.client.host))
        except ValueError:
            return UNKNOWN

    def _count(self, caller: Caller) -> None:
        if self._rates is None:
            return
        wait = self._rates.wait(caller.name)
        if wait > 0:
            raise Problem(
                "too-many-requests",
                f"{caller.name} may ask {self._rates.per_second:g} times a second "
                f"(TUNER_REQUESTS_PER_SECOND); wait {math.ceil(wait)} s",
                headers={"Retry-After": str(math.ceil(wait))},
                limit={"requests_per_second": self._rates.per_second},
            )


def is_open(path: str) -> bool:
    return path in OPEN or path.startswith(OPEN_BELOW)


def bearer(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _key_required(why: str) -> Problem:
    return Problem("key-required", f"{why}; {WAY_OUT}", headers={"WWW-Authenticate": REALM})

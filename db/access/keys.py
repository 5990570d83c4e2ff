"""API keys, which say who may do what over HTTP. A key is shown once; only its hash is stored."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Engine, Select, func, insert, select, update
from sqlalchemy.engine import RowMapping
from sqlalchemy.exc import IntegrityError

from db.sql.choices import SCOPES, KeyScope
from db.sql.columns import now, utc
from db.sql.errors import BadKey, NotFound
from db.sql.tables import UNREVOKED, api_keys
from db.sql.transaction import is_duplicate, reading, writing

PREFIX = "ct_"
DAY = 86400.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._@-]{0,63}")  # not a number: `revoke` takes that for an id


@dataclass(frozen=True)
class Key:
    """A stored API key, without its hash."""

    id: int
    name: str
    scope: KeyScope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    expired: bool  # by the database's clock

    @property
    def state(self) -> Literal["valid", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expired else "valid"

    def may(self, scope: KeyScope) -> bool:
        """Return whether the key's scope includes this one. The key's state is ignored."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    @classmethod
    def from_row(cls, row: RowMapping) -> "Key":
        fields = {name: row[name] for name in cls.__dataclass_fields__}
        for name in ("created_at", "expires_at", "revoked_at"):
            fields[name] = None if row[name] is None else utc(row[name])
        return cls(**fields)


def digest(key: str) -> str:
    """Return the hash under which a key is stored: SHA-256, in hexadecimal.

    One unsalted round is enough. A key is 256 random bits, so there is no dictionary to try, and no
    two keys are equal. A slow hash, which passwords need, would only slow each request.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def create(
    engine: Engine, name: str, scope: KeyScope, days: float | None = None
) -> tuple[Key, str]:
    """Create a key. Return the stored key, and its text, which can't be read again.

    The key expires after ``days``, or never if that is None. Raises BadKey if the name is malformed
    or belongs to an unrevoked key."""
    if not _NAME.fullmatch(name):
        raise BadKey(
            f"a key's name must begin with a letter and have at most 64 letters, digits or ._@-, "
            f"but is {name[:80]!r}"
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    values = {
        "name": name,
        "hash": digest(secret),
        "scope": scope,
        "created_at": now(),
        "expires_at": None if days is None else now() + days * DAY,
    }
    try:
        with writing(engine) as connection:
            made = connection.execute(insert(api_keys).values(values).returning(api_keys.c.id))
            query = _columns().where(api_keys.c.id == made.scalar_one())
            key = Key.from_row(connection.execute(query).mappings().one())
    except IntegrityError as error:
        if not is_duplicate(error):
            raise
        raise BadKey(
            f"there is a key {name!r} already; take another name, or revoke that one first"
        ) from error
    return key, secret


def list_keys(engine: Engine) -> list[Key]:
    """Return all keys that were ever made, including revoked and expired ones, oldest first."""
    with reading(engine) as connection:
        rows = connection.execute(_columns().order_by(api_keys.c.id)).mappings().all()
    return [Key.from_row(row) for row in rows]


def unrevoked(engine: Engine) -> dict[str, Key]:
    """Return the keys that are not revoked, by their digests. Expired keys are among them."""
    query = _columns().where(UNREVOKED)
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    return {row["hash"]: Key.from_row(row) for row in rows}


def revoke(engine: Engine, name_or_id: str) -> tuple[Key, int]:
    """Revoke a key, and return it and the number of keys that are left unrevoked.

    Raises NotFound if no unrevoked key has this name or id."""
    if re.fullmatch(r"\d{1,18}", name_or_id, re.ASCII):
        which = api_keys.c.id == int(name_or_id)
    elif _NAME.fullmatch(name_or_id):
        which = api_keys.c.name == name_or_id
    else:
        raise NotFound("unrevoked key", name_or_id)
    with writing(engine) as connection:
        change = update(api_keys).where(which, UNREVOKED).values(revoked_at=now())
        found = connection.execute(change.returning(api_keys.c.id)).scalar()
        if found is None:
            raise NotFound("unrevoked key", name_or_id)
        row = connection.execute(_columns().where(api_keys.c.id == found)).mappings().one()
        left = select(func.count()).select_from(api_keys).where(UNREVOKED)
        return Key.from_row(row), connection.execute(left).scalar_one()


def _columns() -> Select[Any]:
    """Return a SELECT of keys with the columns that ``Key.from_row`` reads."""
    expired = func.coalesce(api_keys.c.expires_at <= now(), False).label("expired")
    return select(api_keys, expired)

"""Column types and SQL in which SQLite and PostgreSQL differ, and JSON that both can store."""

import json
import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, Dialect, Double, Integer, Table, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in an INTEGER key


class now(FunctionElement[float]):  # noqa: N801 - reads as SQL
    """The database's clock when the statement runs, in seconds since 1970 (UTC)."""

    type = Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: SQLCompiler, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: SQLCompiler, **_: Any) -> str:
    # PostgreSQL's now() is the time at which the transaction began, before it waited for a lock
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


def utc(seconds: float) -> datetime:
    """Return the time so many seconds after 1970 as a datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


class FreeText(TypeDecorator[str]):
    """Text from any source, such as a compiler's error message.

    Characters that PostgreSQL can't store (NUL, lone surrogates) are replaced, so that no message
    can keep its row from being stored."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


class Finite(TypeDecorator[float]):
    """A float. NaN and infinity are stored as NULL: JSON has neither, and SQLite has no NaN."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return value if value is not None and math.isfinite(value) else None


def _finite(value: Any) -> Any:
    """Return a copy of a JSON value in which NaN and infinity are None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """Return a value as compact JSON, with keys in their order. NaN and infinity become null."""
    return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """Return the JSON text that all equal values have: keys sorted, no spaces, and null for NaN and
    infinity."""
    return json.dumps(_finite(value), separators=(",", ":"), sort_keys=True, allow_nan=False)


def storable(text: str) -> bool:
    """Return whether both databases can compare a column with this text. They can't if it contains
    NUL or a lone surrogate; no stored text equals such a text."""
    try:
        return b"\0" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False


def upsert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT into the table that offers ON CONFLICT, in the connection's dialect."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)

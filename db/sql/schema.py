"""The schema's revision: bringing a database to this code's, and refusing another."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, String, column, func, inspect, select, table

from db.sql.errors import SchemaMismatch
from db.sql.transaction import reading, writing

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATIONS = Path(__file__).parents[1] / "migrations"
_VERSION = table("alembic_version", column("version_num", String))
SHOWN_TABLES = 5
_ADVISORY_LOCK = 0x636F6E7674756E65  # "convtune"


def migrate(engine: Engine) -> None:
    """Bring the database to this code's schema; of several processes one does it, the others wait.

    All or nothing. Raises SchemaMismatch if the database is of a newer release, of a development
    version from before the first, or of another program."""
    with reading(engine) as connection:
        if _revision(connection) == _head():
            return
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        _refuse_unknown(_revision(connection))
        refuse_foreign(inspect(connection).get_table_names())
        from alembic import command  # noqa: PLC0415  # 0.2 s that most starts need not spend

        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def check_schema(engine: Engine) -> None:
    """Raises SchemaMismatch, which says what to run, unless the schema is this code's."""
    with reading(engine) as connection:
        revision = _revision(connection)
    _refuse_unknown(revision)
    if revision != _head():
        raise SchemaMismatch(
            f"the database's schema is {revision or 'empty'}, this code needs {_head()}; "
            "run `python -m db.migrations` with the same TUNER_DATABASE_URL"
        )


def refuse_foreign(tables: Collection[str]) -> None:
    """Raises SchemaMismatch for a database that has tables, and none that says their revision."""
    if tables and _VERSION.name not in tables:
        raise _foreign(f"it has other tables ({', '.join(sorted(tables)[:SHOWN_TABLES])})")


def _foreign(why: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database is another program's: {why}; nothing was changed; name one of convtune's "
        "own, or one that is not there yet, in TUNER_DATABASE_URL"
    )


def _refuse_unknown(revision: str | None) -> None:
    if revision is None or revision in _revisions():
        return
    if not re.fullmatch("[0-9]{4}", revision):
        raise _foreign(f"its schema is {revision[:40]}")
    if revision < _revisions()[-1]:
        raise SchemaMismatch(
            f"the database's schema {revision} was made by an earlier development version, and "
            "nothing was changed; run `tuner export --of bests --out bests.jsonl` with that "
            "version and `tuner import bests.jsonl` with this one, or start with a new database"
        )
    raise SchemaMismatch(
        f"the database's schema {revision} is newer than this code knows ({_head()}); "
        "install the release of convtune that wrote it, or a later one"
    )


def _revision(connection: Connection) -> str | None:
    """Not by alembic: its statement is a new one each time, and takes another's place among those
    that the engine keeps compiled."""
    if not connection.dialect.has_table(connection, _VERSION.name):
        return None
    return ", ".join(connection.scalars(select(_VERSION.c.version_num))) or None


def _head() -> str:
    return _revisions()[0]


@cache
def _revisions() -> tuple[str, ...]:
    """This code's, the newest first: the files ``v0009_tables.py`` and so on are named after them.
    alembic would run them all to tell."""
    files = (_MIGRATIONS / "versions").glob("v*.py")
    return tuple(sorted((file.stem[1:].partition("_")[0] for file in files), reverse=True))


def _config() -> Config:
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config

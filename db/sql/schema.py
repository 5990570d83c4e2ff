"""The revision of the schema: upgrading a database to this code's, and refusing unknown ones."""

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
    """Upgrade the database to this code's schema, in one transaction. If several processes call
    this at once, one upgrades and the others wait.

    Raises SchemaMismatch if the database is of a newer release, of a development version from
    before the first release, or of another program."""
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
    """Raise SchemaMismatch, which says what to run, unless the schema is this code's."""
    with reading(engine) as connection:
        revision = _revision(connection)
    _refuse_unknown(revision)
    if revision != _head():
        way_out = "run `python -m db.migrations` with the same TUNER_DATABASE_URL"
        if revision is None:
            raise SchemaMismatch(
                f"the database's schema is empty, this code needs {_head()}; {way_out}"
            )
        raise SchemaMismatch(
            f"the database's schema is {revision}, an older version's; this code needs {_head()}; "
            f"to upgrade it, {way_out}; do not upgrade a backup, but restore it into another "
            "database with `tuner db restore`, and check that one"
        )


def refuse_foreign(tables: Collection[str]) -> None:
    """Raise SchemaMismatch if there are tables, but not the one that holds convtune's revision."""
    if tables and _VERSION.name not in tables:
        raise _foreign(f"it has other tables ({', '.join(sorted(tables)[:SHOWN_TABLES])})")


def _foreign(why: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database is another program's: {why}; nothing was changed; name a database of "
        "convtune, or one that does not exist yet, in TUNER_DATABASE_URL"
    )


def _refuse_unknown(revision: str | None) -> None:
    """Raise SchemaMismatch for a revision that this code can't upgrade. None, which is an empty
    database, can be upgraded."""
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
    """Return the database's revision; None if it is empty.

    Alembic is not asked, because it builds a new statement each time, which would push another out
    of the engine's cache of compiled statements."""
    if not connection.dialect.has_table(connection, _VERSION.name):
        return None
    return ", ".join(connection.scalars(select(_VERSION.c.version_num))) or None


def _head() -> str:
    return _revisions()[0]


@cache
def _revisions() -> tuple[str, ...]:
    """Return the revisions that this code knows, newest first. They are read from the names of the
    files ``v0009_tables.py`` and so on, because Alembic would run all files to find them."""
    files = (_MIGRATIONS / "versions").glob("v*.py")
    return tuple(sorted((file.stem[1:].partition("_")[0] for file in files), reverse=True))


def _config() -> Config:
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config

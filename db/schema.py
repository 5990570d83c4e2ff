"""The schema's revision: bringing a database to this code's, and refusing another."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, func, select

from db.errors import SchemaMismatch
from db.transaction import reading, writing

_ADVISORY_LOCK = 0x636F6E7674756E65  # "convtune"


def migrate(engine: Engine) -> None:
    """Bring the database to this code's schema; of several processes one does it, the others wait.

    All or nothing. Raises SchemaMismatch where the database is of a newer release."""
    with reading(engine) as connection:
        if _revision(connection) == _head():
            return
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        _refuse_unknown(_revision(connection))
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


def _refuse_unknown(revision: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision is not None and revision not in known:
        raise SchemaMismatch(
            f"the database's schema {revision} is newer than this code knows ({_head()}); "
            "install the release of convtune that wrote it, or a later one"
        )


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _head() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config

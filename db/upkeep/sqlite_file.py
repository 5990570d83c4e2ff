"""The file of a SQLite database: where it is, whether it is damaged, and who has it open."""

import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from sqlalchemy import URL

from db.queue.lease import MOST_LEASE_SECONDS
from db.sql.engine import BUSY_SECONDS, open_engine, parsed, why_not_opened
from db.sql.errors import BackupRefused
from db.sql.url import SECRETS

SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite may keep beside a database. They are useless without it."""
_HOLDERS = """
SELECT DISTINCT worker FROM jobs WHERE state = 'running'
AND lease_expires_at - (julianday('now') - 2440587.5) * 86400.0 BETWEEN 0 AND ? ORDER BY worker
"""


def path_of(url: str, instead: str) -> Path:
    """Return the path of a SQLite database's file, with links resolved.

    For a database on PostgreSQL, raises BackupRefused. Its message is `instead`, in which ``URL``
    is replaced by the database's URL, without passwords and quoted for a shell."""
    found = parsed(url)
    if found.get_backend_name() != "sqlite":
        if not found.get_backend_name().startswith("postgres"):
            open_engine(url)  # raises DatabaseUnavailable, which says what is supported
        shown = URL.create(
            "postgresql",
            username=found.username,
            host=found.host,
            port=found.port,
            database=found.database,
            query={name: value for name, value in found.query.items() if name not in SECRETS},
        )
        raise BackupRefused(instead.replace("URL", shlex.quote(shown.render_as_string())))
    return Path(found.database or "").resolve()  # SQLite's side files are beside a link's target


def require_database(url: str) -> None:
    """Raise BackupRefused if the database is a file that does not exist: SQLite would create it."""
    found = parsed(url)
    if found.get_backend_name() == "sqlite" and not Path(found.database or "").is_file():
        raise BackupRefused(f"there is no database {found.database}; look at TUNER_DATABASE_URL")


def require_undamaged(path: Path) -> None:
    """Read the whole database, and raise BackupRefused if it is damaged or can't be read."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:  # such as a full disk, which is no damage
        raise BackupRefused(
            f"{path} can't be read ({error}); {why_not_opened(path.parent)}"
        ) from error
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise BackupRefused(
            f"{path} is damaged ({found}); put a backup in its place: tuner db restore"
        )


def with_suffix_added(path: Path, suffix: str) -> Path:
    """Return the path with a suffix added to its whole name."""
    return path.with_name(path.name + suffix)


def is_of_database(file: Path, database: Path) -> bool:
    """Return whether a path leads to the database's file, by any name, or to a file that SQLite may
    keep beside it. ``database`` has its links resolved."""
    if file.exists() and database.exists() and file.samefile(database):
        return True
    beside = [with_suffix_added(database, suffix) for suffix in SIDE_FILE_SUFFIXES]
    return file.absolute().parent.resolve() / file.name in (database, *beside)


@contextmanager
def temporary_path_for(path: Path) -> Iterator[Path]:
    """Yield an unused path in the folder of `path`, for a file that is to replace it. At the end,
    the file and its side files are deleted if they are still there."""
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
    finally:
        for each in (part, *(with_suffix_added(part, suffix) for suffix in SIDE_FILE_SUFFIXES)):
            each.unlink(missing_ok=True)


def examine(path: Path, shown: Path) -> str:
    """Read the whole database, and return its schema's revision.

    Raises BackupRefused if it is damaged or is no database of convtune. The message calls the file
    `shown`."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            faults = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
            if faults != ["ok"]:
                raise BackupRefused(f"{shown} is damaged ({faults[0]}); take another backup")
            dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
            if dangling is not None:
                raise BackupRefused(
                    f"{shown} is damaged (table {dangling[0]}, row {dangling[1]}: the row of "
                    f"{dangling[2]} that it names is missing); take another backup"
                )
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise BackupRefused(
            f"{shown} is no complete database of convtune ({error}); take another backup"
        ) from error
    if found is None:
        raise BackupRefused(f"{shown} holds no tables of convtune; take another backup")
    return str(found[0])


@contextmanager
def exclusive_access(path: Path, *, force: bool) -> Iterator[bool]:
    """Keep other processes from opening the database while the context lasts, and yield True. All
    of its content is then in its main file.

    Raises BackupRefused if workers hold jobs in it or a process has it open. With `force`, it
    yields False instead if a process has it open; others may then still use the database."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        if not force:
            holders = _holders(connection, path)
            if holders:
                raise BackupRefused(
                    f"workers hold jobs in {path}: {', '.join(holders)}; stop them, or give "
                    "--force if they are gone already"
                )
        alone = _locked(connection)
        if not alone and not force:
            raise BackupRefused(
                f"a service or a worker has {path} open; stop it first (with --force it would go "
                "on with the old database)"
            )
        yield alone


def _holders(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the names of the workers that hold jobs under a lease."""
    try:
        return [str(row[0]) for row in connection.execute(_HOLDERS, (MOST_LEASE_SECONDS,))]
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error):  # a database that was never migrated has no jobs
            return []
        raise BackupRefused(
            f"{path} can't be read ({error}), so it is unknown whether workers hold jobs in it; "
            "stop them all and give --force"
        ) from error


def _locked(connection: sqlite3.Connection) -> bool:
    """Try to lock the database for this connection alone, and return whether that succeeded."""
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # SQLite leaves WAL only for the sole connection, and then writes its content to the file
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError:
        return False
    return str(mode) == "delete"


def sync_to_disk(path: Path) -> None:
    """Wait until the file's content and its name are on the disk. Raises OSError if the content
    can't be written there."""
    _fsync(path)
    with suppress(OSError):  # some file systems can't do this for a folder
        _fsync(path.parent)


def _fsync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

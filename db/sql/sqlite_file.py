"""A SQLite database as a file: where it is, whether it is whole, who is at work in it."""

import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from sqlalchemy import URL

from db.sql.engine import BUSY_SECONDS, open_engine, parsed, why_not_opened
from db.sql.errors import BackupRefused
from db.sql.url import SECRETS

SIDES = ("-wal", "-shm", "-journal")
"""What SQLite may keep beside a file, and what is no use without it."""
_HOLDERS = """
SELECT DISTINCT worker FROM jobs WHERE state = 'running'
AND lease_expires_at > (julianday('now') - 2440587.5) * 86400.0 ORDER BY worker
"""


def path_of(url: str, instead: str) -> Path:
    """The file of a database. For one on PostgreSQL, raises BackupRefused with `instead`, in
    which the URL without its password replaces ``URL``."""
    found = parsed(url)
    if found.get_backend_name() != "sqlite":
        if not found.get_backend_name().startswith("postgres"):
            open_engine(url)  # says what is supported
        shown = URL.create(
            "postgresql",
            username=found.username,
            host=found.host,
            port=found.port,
            database=found.database,
            query={name: value for name, value in found.query.items() if name not in SECRETS},
        )
        raise BackupRefused(instead.replace("URL", shlex.quote(shown.render_as_string())))
    return Path(found.database or "").resolve()  # SQLite's other files are beside a link's end


def must_exist(url: str) -> None:
    """Raises BackupRefused for a file that is not there: opening it would make an empty one."""
    found = parsed(url)
    if found.get_backend_name() == "sqlite" and not Path(found.database or "").is_file():
        raise BackupRefused(f"there is no database {found.database}; look at TUNER_DATABASE_URL")


def must_be_sound(path: Path) -> None:
    """Raises BackupRefused for a database that is damaged, or that can't be read. It reads all of
    it."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:  # its disk is full, say: nothing is wrong with it
        raise BackupRefused(
            f"{path} can't be read ({error}); {why_not_opened(path.parent)}"
        ) from error
    except sqlite3.DatabaseError as error:
        said = str(error)
    if said != "ok":
        raise BackupRefused(
            f"{path} is damaged ({said}); put a backup in its place: tuner db restore"
        )


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """A name beside `path` for what is to take its place; what is left there is removed."""
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
    finally:
        for each in (part, *(beside(part, side) for side in SIDES)):
            each.unlink(missing_ok=True)


def examine(path: Path, shown: Path) -> str:
    """The schema's revision of a whole database of convtune; raises BackupRefused for any other,
    which it calls `shown`. It reads all of it."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            said = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
            if said != ["ok"]:
                raise BackupRefused(f"{shown} is damaged ({said[0]}); take another backup")
            dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
            if dangling is not None:
                raise BackupRefused(
                    f"{shown} is damaged (table {dangling[0]}, row {dangling[1]}: its row in "
                    f"{dangling[2]} is missing); take another backup"
                )
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise BackupRefused(
            f"{shown} is no whole database of convtune ({error}); take another backup"
        ) from error
    if found is None:
        raise BackupRefused(f"{shown} holds no tables of convtune; take another backup")
    return str(found[0])


@contextmanager
def alone(path: Path, *, force: bool) -> Iterator[None]:
    """Nobody else opens the database meanwhile, and all of it is in its file. Raises BackupRefused
    while workers hold jobs or a process has it open, unless forced."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        if not force:
            holders = _holders(connection, path)
            if holders:
                raise BackupRefused(
                    f"workers hold jobs in {path}: {', '.join(holders)}; stop them, or give "
                    "--force where they are gone already"
                )
        if not _locked(connection) and not force:
            raise BackupRefused(
                f"a service or a worker has {path} open; stop it first (with --force it would go "
                "on with the old database)"
            )
        yield


def _holders(connection: sqlite3.Connection, path: Path) -> list[str]:
    try:
        return [str(row[0]) for row in connection.execute(_HOLDERS)]
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error):  # nobody has used it yet
            return []
        raise BackupRefused(
            f"{path} can't be read ({error}), so nobody knows whether workers hold jobs in it; "
            "stop them all and give --force"
        ) from error


def _locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # only who is alone can leave WAL, and takes what is in it into the file
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError:
        return False
    return str(mode) == "delete"


def to_disk(path: Path) -> None:
    """Wait until the file and its name are on the disk."""
    for each in (path, path.parent):
        opened = os.open(each, os.O_RDONLY)
        try:
            with suppress(OSError):  # not every file system can do it for a folder
                os.fsync(opened)
        finally:
            os.close(opened)

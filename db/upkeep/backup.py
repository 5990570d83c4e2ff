"""Backup and restore of the whole database.

Both are for SQLite. For PostgreSQL they are refused, and the message has the command of
PostgreSQL's own tool."""

import os
import shlex
import shutil
import sqlite3
import stat
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL, inspect

from db.sql.engine import BUSY_SECONDS, open_engine
from db.sql.errors import BackupRefused
from db.sql.schema import migrate
from db.sql.tables import metadata
from db.upkeep.sqlite_file import (
    SIDE_FILE_SUFFIXES,
    examine,
    exclusive_access,
    is_of_database,
    path_of,
    require_database,
    require_undamaged,
    sync_to_disk,
    temporary_path_for,
    with_suffix_added,
)

PG_DUMP = (
    "the database is on PostgreSQL, whose own tool copies it while it is in use: "
    "pg_dump --format=custom --dbname=URL --file="
)
PG_RESTORE = (
    "the database is on PostgreSQL, whose own tool restores it, into a new database, which you "
    "then name in the TUNER_DATABASE_URL of service and workers: createdb restored && "
    "pg_restore --no-owner --dbname=restored "
)


@dataclass(frozen=True)
class BackedUp:
    """The result of a backup."""

    file: Path
    size: int  # bytes
    revision: str  # of the schema


@dataclass(frozen=True)
class Restored:
    """The result of a restore."""

    file: Path  # the database
    aside: Path | None  # the former database; None if there was none
    revision: str  # of the schema in the backup; the database has this code's


def back_up(url: str, file: Path, *, force: bool = False) -> BackedUp:
    """Copy the database into a file, even while others write to the database. The file appears only
    when it is complete.

    Raises BackupRefused if the copy can't be made or the database is damaged, and if the file
    exists and `force` is not set."""
    file = file.absolute()
    source = path_of(url, PG_DUMP + shlex.quote(str(file)))
    require_database(url)
    try:
        _may_be_written(file, source, force=force)
        with temporary_path_for(file) as part:
            with closing(sqlite3.connect(source, timeout=BUSY_SECONDS)) as connection:
                connection.execute("VACUUM INTO ?", [str(part)])
            revision = examine(part, source)
            _as_before(source, part)
            sync_to_disk(part)
            size = part.stat().st_size
            part.replace(file)
    except (sqlite3.Error, OSError) as error:
        require_undamaged(source)
        raise BackupRefused(f"{file} can't be written: {error}") from error
    _confirm(file)
    return BackedUp(file, size, revision)


def restore(url: str, file: Path, *, force: bool = False) -> Restored:
    """Replace the database by a backup, upgraded to this code's schema. The database that was there
    is kept beside it. At any moment one of them is in place.

    Raises BackupRefused if the file is damaged or lacks tables, or if the database is in use and
    `force` is not set. Raises SchemaMismatch if the backup is of a release that `migrate`
    refuses."""
    file = file.absolute()
    path = path_of(url, PG_RESTORE + shlex.quote(str(file)))
    aside: Path | None = None
    try:
        there = _may_be_replaced(path, file)
        with temporary_path_for(path) as part:
            shutil.copyfile(file, part)
            revision = examine(part, file)
            _bring_up_to_date(part, file)
            _as_before(path if there else file, part)
            sync_to_disk(part)
            with exclusive_access(path, force=force) if there else nullcontext() as alone:
                if there:
                    aside = _set_aside(path, with_side_files=not alone)
                # files of the old database, which SQLite would replay into the new one
                for suffix in SIDE_FILE_SUFFIXES:
                    with_suffix_added(path, suffix).unlink(missing_ok=True)
                part.replace(path)
    except OSError as error:
        raise BackupRefused(f"{path} can't be replaced: {error}{_kept(aside)}") from error
    _confirm(path, _kept(aside))
    return Restored(path, aside, revision)


def _may_be_replaced(path: Path, file: Path) -> bool:
    """Return whether there is a database to replace. Raise BackupRefused if `file` can't replace
    it."""
    if not file.is_file():
        raise BackupRefused(f"there is no file {file}")
    if not path.parent.is_dir():
        raise BackupRefused(f"there is no folder {path.parent}; create it first")
    there = path.is_file()
    if there and path.samefile(file):
        raise BackupRefused(f"{file} is the database itself; name a backup")
    if with_suffix_added(file, "-wal").exists():
        raise BackupRefused(
            f"{file} is an incomplete copy: part of its content is in {file.name}-wal; copy with "
            "`tuner db backup`"
        )
    return there


def _may_be_written(file: Path, source: Path, *, force: bool) -> None:
    """Raise BackupRefused if the backup must not be written there."""
    if not file.parent.is_dir():
        raise BackupRefused(f"there is no folder {file.parent}; create it first")
    there = os.path.lexists(file)
    plain = there and stat.S_ISREG(file.lstat().st_mode)  # neither a folder, a link nor a device
    if (there and not plain) or is_of_database(file, source):
        raise BackupRefused(f"{file} can't be used for a backup; name another file")
    if any(with_suffix_added(file, suffix).exists() for suffix in SIDE_FILE_SUFFIXES):
        raise BackupRefused(
            f"a program has {file} open as a database, or left files beside it "
            f"({', '.join(SIDE_FILE_SUFFIXES)}); name another file"
        )
    if there and not force:
        raise BackupRefused(f"{file} is there already; name another file, or give --force")


def _kept(aside: Path | None) -> str:
    """Return the end of an error message, which names the former database if it was set aside."""
    return "" if aside is None else f"; the replaced database is kept as {aside}"


def _confirm(file: Path, kept: str = "") -> None:
    """Wait until a file that was put in its place is on the disk. If that can't be found out, raise
    BackupRefused, which says that the file is in place, and ends with ``kept``."""
    try:
        sync_to_disk(file)
    except OSError as error:
        raise BackupRefused(
            f"{file} is in place, but may not be on the disk yet ({error}); check that it is "
            f"there, and repeat the command if it is not{kept}"
        ) from error


def _bring_up_to_date(part: Path, shown: Path) -> None:
    """Upgrade a database file to this code's schema. Raise BackupRefused, which calls the file
    `shown`, if it then lacks tables."""
    engine = open_engine(URL.create("sqlite", database=str(part)))
    try:
        migrate(engine)
        missing = metadata.tables.keys() - inspect(engine).get_table_names()
        if missing:
            raise BackupRefused(
                f"{shown} lacks tables ({', '.join(sorted(missing))}); take another backup"
            )
    finally:
        engine.dispose()  # the last connection to close merges the -wal into the file


def _set_aside(path: Path, *, with_side_files: bool) -> Path:
    """Give the database a second name, so that its first can be replaced in one step. Return the
    second. If another process writes to the database, its side files are needed, and are renamed
    too."""
    aside = with_suffix_added(path, f".before-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    os.link(path, aside)
    for suffix in SIDE_FILE_SUFFIXES if with_side_files else ():
        if with_suffix_added(path, suffix).exists():
            with_suffix_added(path, suffix).replace(with_suffix_added(aside, suffix))
    return aside


def _as_before(model: Path, part: Path) -> None:
    """Copy owner and mode of a file, which say who may read and write it, to its replacement."""
    shutil.copymode(model, part)
    found = model.stat()
    with suppress(PermissionError):  # only root can change a file's owner
        os.chown(part, found.st_uid, found.st_gid)

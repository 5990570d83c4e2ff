"""Kinds of transaction. The caller says before it starts whether it will write.

All of them raise DatabaseUnavailable if the database can't be reached or does not answer,
DatabaseFull if its disk is full, and DatabaseDamaged if its file is damaged."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from db.sql.errors import DatabaseDamaged, DatabaseFull, DatabaseUnavailable
from db.sql.sqlite_lock import begin_immediate
from db.sql.url import without_passwords

_FULL = ("is full", "No space left on device")
"""The words of SQLite and of PostgreSQL if there is no room on the disk."""


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that may write. Any exception rolls it back.

    On SQLite it takes the write lock at once (BEGIN IMMEDIATE). A transaction that read first and
    then wanted the lock could fail halfway."""
    with _connected(engine) as connection, connection.begin():
        if engine.dialect.name == "sqlite":
            begin_immediate(connection)
        yield connection


@contextmanager
def one_write(engine: Engine) -> Iterator[Connection]:
    """Open a connection for a single statement that writes.

    PostgreSQL commits it by itself (AUTOCOMMIT), which takes one round trip instead of three. On
    SQLite this is `writing`."""
    if engine.dialect.name == "sqlite":
        with writing(engine) as connection:
            yield connection
        return
    with _connected(engine) as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that only reads, and sees the database in one state throughout. It neither
    waits for writers nor blocks them."""
    with _connected(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with connection.begin():
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection


@contextmanager
def one_read(engine: Engine) -> Iterator[Connection]:
    """Open a connection for a single statement that reads.

    A single statement sees the database in one state anyway, and BEGIN and COMMIT around it would
    take longer than a look-up."""
    with _connected(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(isolation_level="AUTOCOMMIT")
        yield connection


def is_duplicate(error: IntegrityError) -> bool:
    """Return whether the row was refused because another one has its unique fields."""
    return "unique" in str(error.orig).lower()


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    """Open a connection, and turn errors of the database itself into the storage's errors."""
    try:
        with engine.connect() as connection:
            yield connection
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        cause = _cause(error)
        if any(words in cause for words in _FULL):
            raise DatabaseFull(without_passwords(engine.url), cause) from error
        if "is locked" in cause:
            cause += "; another process is writing to it: wait until that is done, or end it"
        raise DatabaseUnavailable(without_passwords(engine.url), cause) from error
    except DatabaseError as error:
        if type(error) is not DatabaseError:  # a subclass, such as a constraint's IntegrityError
            raise
        raise DatabaseDamaged(without_passwords(engine.url), _cause(error)) from error


def _cause(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip()

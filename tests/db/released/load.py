"""Load the kept SQL file of a released schema into a blank database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
from sqlalchemy import make_url

HERE = Path(__file__).parent
REVISIONS = sorted({path.name.split(".")[0] for path in HERE.glob("*.sql")})


def load(url: str, revision: str) -> None:
    """Execute the file of this revision for the URL's engine on the database."""
    target = make_url(url)
    script = (HERE / f"{revision}.{target.get_backend_name()}.sql").read_text()
    if target.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(target.database))
        connection.executescript(script)
        connection.close()
        return
    plain = target.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as server:
        server.execute(script.encode())

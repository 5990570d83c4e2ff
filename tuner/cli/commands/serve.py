"""``tuner serve``: run the HTTP API."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tuner.cli.common import examples
from tuner.process import own_modules


def serve(
    host: Annotated[
        str, typer.Option(envvar="TUNER_HOST", help="address to listen on")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="TUNER_PORT", min=0, max=65535, help="port; 0 takes a free one")
    ] = 8000,
) -> None:
    """Serve the HTTP API and its pages (the same as: python -m api)."""
    environment = {
        **os.environ,
        "TUNER_HOST": host,
        "TUNER_PORT": str(port),
        **own_modules.environment(),
    }
    command = own_modules.command("api")
    os.execve(command[0], command, environment)  # noqa: S606  # a program without a compiler


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("tuner serve", "tuner serve --host 0.0.0.0 --port 80"))(serve)

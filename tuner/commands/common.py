"""What several commands share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from sqlalchemy.engine import Engine

from db.engine import open_engine
from db.schema import check_schema, migrate
from tuner.settings import Settings

console = Console()

Target = StrEnum("Target", ["auto", "cpu", "cuda"])

TargetOption = Annotated[Target, typer.Option(help="device to tune for; auto takes a GPU if any")]
TemplateOption = Annotated[
    list[str] | None,
    typer.Option("--template", metavar="NAME", help="only this template; may be given again"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON, for programs")]


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def show(line: str) -> None:
    """A line of which others wrote a part: it can't move the cursor, nor begin another line."""
    seen = "".join(letter if letter.isprintable() else "�" for letter in line)
    console.print(seen, markup=False, highlight=False, soft_wrap=True)


def address(text: str, option: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"{option} {text}: give host:port, as in 10.0.0.1:9190")
    return host.removeprefix("[").removesuffix("]"), int(port)


@contextmanager
def database(settings: Settings) -> Iterator[Engine]:
    """The database, its schema brought up to date."""
    engine = open_engine(settings.database_url)
    try:
        migrate(engine)
        check_schema(engine)
        yield engine
    finally:
        engine.dispose()

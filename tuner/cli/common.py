"""Options and helpers that several commands share: examples, output, addresses, the database."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy.engine import Engine

    from tuner.settings import Settings

Target = StrEnum("Target", ["auto", "cpu", "cuda"])

TargetOption = Annotated[Target, typer.Option(help="device to tune for; auto takes a GPU if any")]
TemplateOption = Annotated[
    list[str] | None,
    typer.Option("--template", metavar="NAME", help="only this template; may be repeated"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON, for programs")]


def examples(*lines: str) -> str:
    """Return the text of examples below a command's help."""
    return "Examples:\n\n" + "\n\n".join(lines)  # without empty lines they would be joined


def completer(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a completion function for an option with these choices."""

    def begun(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return begun


@cache
def console() -> Console:
    """Return the console of standard output."""
    from rich.console import Console

    return Console()


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=datetime.isoformat))


def show(line: str) -> None:
    """Print a line that may contain others' text.

    Unprintable characters are replaced, so that the text can neither move the cursor nor begin
    another line.
    """
    seen = "".join(letter if letter.isprintable() else "�" for letter in line)
    console().print(seen, markup=False, highlight=False, soft_wrap=True)


def say(line: str) -> None:
    """Print a remark to standard error, so that programs can read the answer on standard output."""
    print("tuner:", line, file=sys.stderr)


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Parse ``host:port``, with an IPv6 address in brackets, and return host and port.

    Raises BadParameter, which names ``option``.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"{option} {text}: give host:port, as in 10.0.0.1:9190")
    return host.removeprefix("[").removesuffix("]"), int(port)


def must_name_servers(key: str, option: str) -> None:
    """Raise BadParameter, which names ``option``, if a key of RPC servers is empty."""
    if not key.strip():
        raise typer.BadParameter(f"{option}: give a name for the kind of device, as in h200")


@contextmanager
def database(settings: Settings | None = None) -> Iterator[Engine]:
    """Open the database of the settings and bring its schema up to date; close it on exit."""
    from db.sql.engine import open_engine
    from db.sql.schema import check_schema, migrate
    from tuner.settings import Settings

    engine = open_engine((settings or Settings()).database_url)
    try:
        migrate(engine)
        check_schema(engine)
        yield engine
    finally:
        engine.dispose()

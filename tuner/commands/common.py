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
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON, for programs")]


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


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

"""What routes are given."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request
from sqlalchemy import Engine


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


EngineDep = Annotated[Engine, Depends(_engine)]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="an ETag that was answered before")
]

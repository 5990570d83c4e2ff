"""What routes are given."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request
from sqlalchemy import Engine

from api.access import Access, Caller
from db.quota import orders_of


async def _engine(request: Request) -> Engine:  # not async, it would cost a thread
    engine: Engine = request.app.state.engine
    if request.method == "GET":
        return engine
    access: Access = request.app.state.access
    caller: Caller = request.state.caller
    return orders_of(engine, access.orderer(caller))


EngineDep = Annotated[Engine, Depends(_engine)]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="an ETag that was answered before")
]

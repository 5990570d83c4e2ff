"""FastAPI dependencies of routes: the database, slots, and request headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Header, Request
from sqlalchemy import Engine

from api.access.access import Access, Caller
from api.concurrency_limit import ConcurrencyLimit
from db.access.quota import orders_of


async def _engine(request: Request) -> AsyncIterator[Engine]:  # if sync, it would need a thread
    engine: Engine = request.app.state.engine
    if request.method == "GET":
        yield engine
        return
    access: Access = request.app.state.access
    limit: ConcurrencyLimit = request.app.state.write_limit
    caller: Caller = request.state.caller
    async with limit.acquire():
        yield orders_of(engine, access.orderer(caller))


async def _export(request: Request) -> AsyncIterator[None]:
    """Take a slot for an export. Raise Problem if no slot is free in time."""
    limit: ConcurrencyLimit = request.app.state.export_limit
    async with limit.acquire():
        yield


EngineDep = Annotated[Engine, Depends(_engine, scope="function")]
"""The database. For methods other than GET, the route holds a write slot until its function
returns, and the caller is the orderer of new jobs. This argument must come after those that read
the body. Otherwise a client that sends slowly would hold a slot."""
ExportSlot = Depends(_export)
"""A slot for an export. The slot is free again when the whole answer is sent."""
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="an ETag from an earlier answer")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern="^[!-~]+$",
        description="the same key with the same order gets the same answer, for a day; "
        "equal keys of different orderers are different keys",
        examples=["0b6a2f0e-9f0e-4b58-8a4c-5d1f0a0c7e11"],
    ),
]

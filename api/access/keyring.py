"""The valid keys, read from the database once a second at most."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping

from anyio.to_thread import run_sync
from sqlalchemy import Engine

from db.access import keys
from db.access.keys import Key
from db.sql.errors import StorageError

FRESH_SECONDS = 1.0
"""How long a revoked key may still be accepted, and a new key still be unknown."""


class Keyring:
    """The keys that are not revoked, including expired keys.

    There are few keys, so all are in memory, and a guessed key costs no query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._keys: Mapping[str, Key] = {}
        self._failure: StorageError | None = None
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    @property
    def known(self) -> Mapping[str, Key]:
        """The keys by their digests, as they were last read."""
        return self._keys

    async def current(self) -> Mapping[str, Key]:
        """Return the keys by their digests, at most FRESH_SECONDS old.

        Raise DatabaseUnavailable. A failure is kept as long as keys are, so that all waiting
        callers fail at once, not one after another."""
        if not self._fresh():
            async with self._reading:
                if not self._fresh():
                    await self._read()
        if self._failure is not None:
            raise self._failure
        return self._keys

    async def _read(self) -> None:
        self._read_at = time.monotonic()
        try:
            self._keys, self._failure = await run_sync(keys.unrevoked, self._engine), None
        except StorageError as error:
            self._failure, self._read_at = error, time.monotonic()

    def _fresh(self) -> bool:
        return time.monotonic() - self._read_at < FRESH_SECONDS

"""The keys that count, read from the database once a second at most."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping

from anyio.to_thread import run_sync
from sqlalchemy import Engine

from db import keys
from db.keys import Key

FRESH_SECONDS = 1.0
"""How long a key that was revoked may still be good, and one that was made unknown."""


class Keyring:
    """There are few keys, so all are held: whoever guesses costs no query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._keys: Mapping[str, Key] = {}
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    @property
    def known(self) -> Mapping[str, Key]:
        """By their digests, as they were last read."""
        return self._keys

    async def current(self) -> Mapping[str, Key]:
        """By their digests, at most a second old. Raises DatabaseUnavailable."""
        if not self._fresh():
            async with self._reading:
                if not self._fresh():
                    asked = time.monotonic()
                    self._keys = await run_sync(keys.unrevoked, self._engine)
                    self._read_at = asked
        return self._keys

    def _fresh(self) -> bool:
        return time.monotonic() - self._read_at < FRESH_SECONDS

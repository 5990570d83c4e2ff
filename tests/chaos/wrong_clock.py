"""A host whose clock is wrong, as far as one process of a machine can have one: Python's clocks are
moved in it. The databases ask the system for the time, and are not touched."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from typing import Any

ROOMS = ("api", "db", "templates", "tuner")


def shift(seconds: float) -> None:
    """Move the clocks of this process for good, also those that the project's modules have imported
    by name."""
    for name in ("time", "monotonic", "perf_counter"):
        setattr(time, name, _moved(getattr(time, name), seconds))
    real = datetime.datetime

    class Moved(real):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.now(tz) + datetime.timedelta(seconds=seconds)

    datetime.datetime = Moved  # type: ignore[misc]
    for module in [each for each in sys.modules.values() if _ours(each)]:
        for name, value in list(vars(module).items()):
            if value is real:
                setattr(module, name, Moved)


def _moved(clock: Callable[[], float], seconds: float) -> Callable[[], float]:
    return lambda: clock() + seconds


def _ours(module: Any) -> bool:
    return getattr(module, "__name__", "").split(".")[0] in ROOMS

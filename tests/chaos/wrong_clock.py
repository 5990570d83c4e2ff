"""A wrong clock in one process, to stand for a host whose clock is wrong.

Python's clocks are moved. The databases ask the operating system for the time and are not affected.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from typing import Any

ROOMS = ("api", "db", "templates", "tuner")


def shift(seconds: float) -> None:
    """Move the clocks of this process by so many seconds for the rest of its life.

    ``datetime`` is replaced in the project's modules that have imported the class by name, too.
    """
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

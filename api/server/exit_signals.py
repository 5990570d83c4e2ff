"""Reacting to SIGTERM and SIGINT while requests still run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def called_on_exit_signals(act: Callable[[], None]) -> Iterator[None]:
    """Within the context, let SIGTERM and SIGINT call ``act`` in the running loop.

    The handlers that were set before are called, too. A signal without a handler stays as it is.

    A server ends the lifespan only after its open responses. A stream that ends only with the
    lifespan would keep the process alive for ever; ``act`` can end the stream in time."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ending(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, ending)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])

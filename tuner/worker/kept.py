"""A worker of this process's own, kept between its jobs."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy.engine import Engine

from tuner.device.device import Device
from tuner.process.scratch import scratch_folder, used_as_scratch
from tuner.process.stopping import LOOK_SECONDS, check_stopped
from tuner.settings import Settings
from tuner.worker.worker import Worker


class KeptWorker:
    """It begins with the first job, and stays with its builders, the processes of peers and a
    scratch folder: the next job need not wait for them. It ends with :meth:`close`, with what
    interrupts a job, with this object and with the process."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings
        self._turn = threading.Lock()
        self._kept: _Kept | None = None

    @contextmanager
    def at_work(self, device: Device) -> Iterator[Worker]:
        """The worker for that device. Other threads wait for their turn. Temporary files lie in the
        scratch folder meanwhile."""
        while not self._turn.acquire(timeout=LOOK_SECONDS):
            check_stopped()
        try:
            kept = self._for(device)
            with used_as_scratch(kept.folder):
                yield kept.worker
                kept.worker.leave()
        except BaseException:
            self.close()
            raise
        finally:
            self._turn.release()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.end()
            self._kept = None

    def _for(self, device: Device) -> _Kept:
        if self._kept is None or not self._kept.fits(device):
            self.close()
            self._kept = _Kept(self.engine, self.settings, device)
        return self._kept


class _Kept:
    def __init__(self, engine: Engine, settings: Settings, device: Device) -> None:
        self._device, self._process = device, os.getpid()
        with ExitStack() as stack:
            self.folder = stack.enter_context(scratch_folder())
            with used_as_scratch(self.folder):
                self.worker = Worker(engine, device, settings)
            stack.callback(self.worker.close)
            self.end = weakref.finalize(self, _end, stack.pop_all(), self._process)

    def fits(self, device: Device) -> bool:
        """Whether it can work for that device: in the process that it was made in, with a folder
        that nobody has cleaned away."""
        here = self._process == os.getpid() and self.folder.exists()
        return here and self._device.identity == device.identity


def _end(stack: ExitStack, process: int) -> None:
    """In a process that was forked from that one, what is kept is still the other's."""
    if os.getpid() == process:
        stack.close()

"""A worker inside this process that is kept between jobs."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy.engine import Engine

from tuner.device.device import Device
from tuner.library import trust
from tuner.process.scratch import scratch_folder, used_as_scratch
from tuner.process.stopping import POLL_SECONDS, Stopped, check_stopped
from tuner.settings import Settings
from tuner.worker.worker import ENDS, Worker


class KeptWorker:
    """A worker that starts with the first job and is kept, so that later jobs need not wait for it.

    Its builders, the processes of peers and a scratch folder are kept with it. It ends with
    :meth:`close`, with an exception during a job, with this object and with the process. The user
    trusts the worker's key and those in TUNER_SIGNERS. Raises NotAKey if one of the latter is not a
    key.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings
        self._trusted = trust.named_keys(None) or frozenset()
        self._turn = threading.Lock()
        self._kept: _WorkerWithScratch | None = None
        _all.add(self)

    @contextmanager
    def acquire(self, device: Device) -> Iterator[Worker]:
        """Yield the worker for a device to one thread at a time; other threads wait.

        In this context, the scratch folder is this thread's
        :func:`~tuner.process.scratch.temporary_folder`. Raises Stopped if another thread closes
        the worker meanwhile.
        """
        while not self._turn.acquire(timeout=POLL_SECONDS):
            check_stopped()
        kept = None
        try:
            kept = self._worker_for(device)
            with used_as_scratch(kept.folder):
                yield kept.worker
                kept.worker.leave()
        except BaseException as error:
            was_closed = kept is not None and kept is not self._kept
            self.close()
            if was_closed and isinstance(error, Exception):
                raise Stopped(ENDS) from error
            raise
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the worker, if there is one; the next job starts another."""
        if self._kept is not None:
            self._kept.end()
            self._kept = None

    def begin_turns(self) -> None:
        """Let a thread have the worker, whoever had it before."""
        self._turn = threading.Lock()

    def _worker_for(self, device: Device) -> _WorkerWithScratch:
        if self._kept is None or not self._kept.fits(device):
            self.close()
            self._kept = _WorkerWithScratch(self.engine, self.settings, device, self._trusted)
        return self._kept


_all: weakref.WeakSet[KeptWorker] = weakref.WeakSet()


def _begin_turns() -> None:
    """Begin anew in a forked process, which does not have the thread whose turn it was."""
    for each in _all:
        each.begin_turns()


os.register_at_fork(after_in_child=_begin_turns)


class _WorkerWithScratch:
    """A worker with its scratch folder; ``end()`` closes both."""

    def __init__(
        self, engine: Engine, settings: Settings, device: Device, trusted: frozenset[str]
    ) -> None:
        self._device, self._process = device, os.getpid()
        with ExitStack() as stack:
            self.folder = stack.enter_context(scratch_folder()).folder
            with used_as_scratch(self.folder):
                self.worker = Worker(engine, device, settings, trusted=trusted)
            stack.callback(self.worker.close)
            self.end = weakref.finalize(self, _close_in_own_process, stack.pop_all(), self._process)

    def fits(self, device: Device) -> bool:
        """Return whether the worker can be used for this device.

        It can't be used in a forked process, or if its scratch folder was removed.
        """
        here = self._process == os.getpid() and self.folder.exists()
        return here and self._device.identity == device.identity


def _close_in_own_process(stack: ExitStack, process: int) -> None:
    """Close what is kept, but not in a forked process: there it still belongs to the parent."""
    if os.getpid() == process:
        stack.close()

"""Processes of peers that are started before they are needed: during a job's search, or earlier."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

from tuner.compare.comparison import Stage
from tuner.compare.stage import compile_peers
from tuner.errors import ChildTimeout
from tuner.measure.confined import ENVIRONMENT, LIMITED
from tuner.peers import IMPORTED, import_libraries, may_be_installed, shares_kernel_process
from tuner.process.child import Child
from tuner.process.stopping import check_stopped, pause, unended, wait_for

RUNTIME = ("tvm", "tuner.compare.stage")
"""Modules that are imported before a process for libraries is forked. A process for peers on the
host imports what their users import, and nothing else."""
ON_A_GPU = (*RUNTIME, "torch")
"""Modules for a GPU's peers and for calls of libraries: RUNTIME, and PyTorch, whose import takes
seconds."""
BEGIN_SECONDS = 120.0
"""Limit for importing and for compiling, not counting pauses. A process that takes longer is
killed, and another process does its work in the round."""
A_DAY = 86_400.0
"""A timeout that is never reached. BEGIN_SECONDS is checked separately, because pauses don't
count."""
START_LOOK_SECONDS = 0.05
AHEAD = {"cpu": 1, "cuda": 2}
"""Spare processes of each group, by kind of device. The imports for a GPU take longer than a quick
job, so these processes are started two jobs ahead."""


class PeerProcess:
    """A process for the peers of a group, for jobs on a device of that kind (``cpu``, ``cuda``).

    It imports the peers' libraries at once, and can have them compile for a workload. The caller
    must close it.
    """

    def __init__(self, kind: str, group: str) -> None:
        self._kind, self._group = kind, group
        self._child = child_of(kind, group)
        self._paused_seconds = 0.0
        self._begun = _in_a_thread(partial(self._call, import_libraries, group))

    def compile(self, workload_key: str, cases: Future[None], folder: Path) -> None:
        """Have the libraries compile for the workload once its ``cases`` are written to
        ``folder``."""
        imported = self._begun

        def begin() -> None:
            imported.result()
            cases.result()
            self._call(compile_peers, workload_key, folder, self._kind, self._group)

        self._begun = _in_a_thread(begin)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the process.

        If its fork server is still importing, this waits until the server is done: the server
        imports for all processes of the kind and can't be paused.
        """
        while self._child.pid is None and not self._begun.done():
            pause(START_LOOK_SECONDS)
        start = time.monotonic()
        self._child.pause()
        try:
            yield
        finally:
            self._child.resume()
            self._paused_seconds += time.monotonic() - start

    def wait(self) -> None:
        """Wait until importing and compiling are done or have failed."""
        while unended([self._begun]):
            check_stopped()

    def stage(self) -> Stage:
        """Return the process, ready for a round, once importing and compiling are done.

        Raises ChildFailed if one of them failed or took too long.
        """
        wait_for(self._begun)
        return Stage(self._child)

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        wait([self._begun])
        self._child.close()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the process within :data:`BEGIN_SECONDS`, not counting pauses."""
        start, paused = time.monotonic(), self._paused_seconds

        def check() -> None:
            spent = time.monotonic() - start - (self._paused_seconds - paused)
            if spent > BEGIN_SECONDS:
                raise ChildTimeout(BEGIN_SECONDS)

        self._child.call(function, *arguments, timeout=A_DAY, check=check)


class PeerProcesses:
    """A worker's spare processes of peers, for its next jobs.

    New processes are started when a job ends. For a GPU they are started when a job begins, because
    they do not disturb the GPU's times.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._spare: dict[str, deque[PeerProcess]] = {}
        self._taken: list[str] = []

    def take(self, groups: Sequence[str]) -> dict[str, PeerProcess]:
        """Return a process for each of these groups whose library may be installed.

        The caller closes them. Spare processes of other groups are ended, because the runner would
        not pause them.
        """
        self._taken = [group for group in groups if may_be_installed(group)]
        found = dict[str, PeerProcess]()
        for group in self._taken:
            spare = self._spare.get(group)
            found[group] = spare.popleft() if spare else PeerProcess(self._kind, group)
        for group in self._spare.keys() - found.keys():
            self._end(group)
        if self._kind == "cuda":
            self.refill()
        return found

    def refill(self) -> None:
        """Start spare processes for the groups that were taken last.

        The next job will probably take the same groups.
        """
        for group in self._taken:
            spare = self._spare.setdefault(group, deque())
            while len(spare) < AHEAD[self._kind]:
                spare.append(PeerProcess(self._kind, group))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the spare processes."""
        with ExitStack() as stack:
            for process in chain.from_iterable(self._spare.values()):
                stack.enter_context(process.paused())
            yield

    def close(self) -> None:
        """End the spare processes."""
        for group in [*self._spare]:
            self._end(group)

    def _end(self, group: str) -> None:
        for process in self._spare.pop(group):
            process.close()


def _in_a_thread(begin: Callable[[], None]) -> Future[None]:
    """Run ``begin`` in a new thread. Return a future that is done, or has the error, at its end.

    The thread is a daemon: a program that ends does not wait for it, as it would for the thread of
    an executor.
    """
    begun: Future[None] = Future()

    def run() -> None:
        try:
            begin()
        except BaseException as error:
            begun.set_exception(error)
        else:
            begun.set_result(None)

    Thread(target=run, name="peers", daemon=True).start()
    return begun


def child_of(kind: str, group: str) -> Child:
    """Return a new process for the peers of a group.

    Peers that run on a GPU are timed in the same process as the kernels, so their process has
    TVM's runtime, too.
    """
    if shares_kernel_process(group, kind):
        return Child(ENVIRONMENT, confinement=LIMITED, importing=ON_A_GPU)
    return Child(confinement=LIMITED, importing=IMPORTED[group])

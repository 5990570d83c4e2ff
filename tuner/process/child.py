"""A child process that lives on, runs one call at a time, and is killed at its deadline.

Why not TVM's ``PopenWorker``, under MetaSchedule's builder and runner: its deadline is a timer
thread inside the child, which a native call that holds the interpreter lock silences, so a
kernel that hangs would hang the job; its child outlives a killed parent; and ``LocalBuilder``
makes a new pool, importing TVM anew, for every batch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any, TypeVar

from tuner.errors import ChildCrashed, ChildTimeout
from tuner.process import channel
from tuner.process.channel import Malformed
from tuner.process.confine import Confinement
from tuner.process.fork_server import Forked, ForkServer
from tuner.process.stopping import check_stopped

START_SECONDS = 60.0
ANSWER_BYTES = 64 << 20
STDERR_TAIL = 2000
READ_AT_IMPORT = ("TVM_USE_RUNTIME_LIB",)
"""Variables that a module reads when it is imported. Children that differ in others only are forked
from one process."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
PEERS = ("scipy", "torch")
"""What has its users' threads if nothing else is beside it. It makes them anew in a child that has
work for them."""
SECRET = ("TUNER_", "PG")
"""Variables that begin so stay here: a candidate is not told where the database is."""

T = TypeVar("T")


class Child:
    """Runs module-level functions in a process of its own, in its own process group.

    The process starts with the first call and anew after a crash, a timeout or :meth:`close`.
    Starting does not count against a call's deadline. Not for use by two threads at once.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        niceness: int = 0,
        confinement: Confinement | None = None,
        answer_bytes: int = ANSWER_BYTES,
        importing: Sequence[str] = (),
    ) -> None:
        """A process whose answer is longer than ``answer_bytes`` is killed. It is forked from one
        that has imported the modules ``importing``."""
        self._environment = _environment(environment or {})
        read = {name: self._environment.get(name) for name in READ_AT_IMPORT}
        self._server = _server(tuple(importing), tuple(read.items()))
        self._niceness, self._confinement = niceness, confinement
        self._answer_bytes = answer_bytes
        if confinement is not None and confinement.folder is not None:
            # CUDA's cache of what its driver compiled lies elsewhere
            self._environment |= {"TMPDIR": confinement.folder, "CUDA_CACHE_DISABLE": "1"}
        self._process: Forked | None = None
        self._channel: socket.socket | None = None
        self._calls = 0  # of the running process
        self._stderr: Any = None
        self._killed = False

    @property
    def pid(self) -> int | None:
        """The running process, None before the first call and after the end of one."""
        return self._process.pid if self._process else None

    def call(
        self,
        function: Callable[..., T],
        *arguments: Any,
        timeout: float,
        check: Callable[[], None] = check_stopped,
    ) -> T:
        """``function(*arguments)`` there. Arguments and answer cross as JSON, by the annotations
        that the function has for them. ``check()`` is called first, and about twice a second
        meanwhile; if it raises then, the process is killed.

        Raises ChildError, ChildCrashed (if the answer is none, too, after the process is killed) or
        ChildTimeout (``timeout`` in seconds).
        """
        request = channel.request(function, arguments)
        check()
        check = partial(self._check, check)
        connection = self._started(check)
        self._calls += 1
        deadline = time.monotonic() + timeout
        try:
            channel.send(connection, request, deadline)
            answer = channel.receive(connection, self._answer_bytes, deadline, check)
            return channel.read_answer(self._calls, function, answer)
        except TimeoutError as error:
            self.close()
            raise ChildTimeout(f"killed after {timeout:g} s") from error
        except Malformed as error:
            self.close()
            raise ChildCrashed(f"killed for an answer that is none: {error}") from error
        except (EOFError, ConnectionError) as error:
            raise ChildCrashed(self._post_mortem()) from error

    def kill(self) -> None:
        """End the process for good, from any thread: a call under way, and any later one, raises
        ChildCrashed. :meth:`close` is still to be called."""
        self._killed = True
        self._signal()

    def interrupt(self) -> None:
        """End the process, from any thread: a call under way raises ChildCrashed, the next one
        starts another."""
        self._signal()

    def pause(self) -> None:
        """Let the process and those of its group do nothing until :meth:`go_on`, from any thread.
        One that has not started is not paused."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause, from any thread."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the process with all it started, and wait for its end. Not while a call of another
        thread is under way."""
        if self._channel is not None:
            self._channel.close()
        self._signal()
        if self._process is not None:
            self._process.wait()
            self._process.release()
        if self._stderr is not None:
            self._stderr.close()
        self._process = self._channel = self._stderr = None

    def _check(self, check: Callable[[], None]) -> None:
        try:
            check()
        except BaseException:
            self.close()  # nobody waits for the answer any more
            raise

    def _signal(self, number: signal.Signals = signal.SIGKILL) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def _started(self, check: Callable[[], None]) -> socket.socket:
        if self._process is not None and (self._process.poll() is not None or not self._silent()):
            self.close()
        if self._channel is None:
            self._start(check)
        assert self._channel is not None  # noqa: S101  # _start() has just set it
        return self._channel

    def _silent(self) -> bool:
        """Or else what a candidate left to be read would be taken for the next one's answer."""
        return self._channel is not None and channel.silent(self._channel)

    def _start(self, check: Callable[[], None]) -> None:
        self._channel, far_end = socket.socketpair()
        self._calls = 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        limits = self._confinement and asdict(self._confinement)
        try:
            with far_end:
                self._process = self._server.fork(
                    "tuner.process.child_main:main",
                    (self._niceness, limits),
                    self._stderr.fileno(),
                    far_end.fileno(),
                    self._environment,
                    START_SECONDS,
                    check,
                )
        except TimeoutError as error:
            self.close()
            raise ChildTimeout(f"the child did not start within {START_SECONDS:g} s") from error
        except (EOFError, ConnectionError) as error:
            self.close()
            raise ChildCrashed("the process that forks children died") from error
        except BaseException:  # no process can be started, or nobody waits for it any more
            self.close()
            raise
        if self._killed:  # perhaps before there was a process to signal
            self._signal()
        try:
            deadline = time.monotonic() + START_SECONDS
            channel.receive(self._channel, self._answer_bytes, deadline, check)
        except TimeoutError as error:
            self.close()
            raise ChildTimeout(f"the child did not start within {START_SECONDS:g} s") from error
        except (EOFError, ConnectionError) as error:
            raise ChildCrashed(self._post_mortem()) from error

    def _post_mortem(self) -> str:
        """How the process ended and the last it said; cleans up."""
        assert self._process is not None  # noqa: S101  # only called with a process
        code = self._process.wait(timeout=5)
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - STDERR_TAIL))
        said = self._stderr.read().decode(errors="replace").strip()
        self.close()
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        return f"the process died ({how}){': ' + said if said else ''}"


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith(SECRET)}
    return {**ours, **changes}


@cache
def _server(modules: tuple[str, ...], read: tuple[tuple[str, str | None], ...]) -> ForkServer:
    alone = bool(modules) and all(name.partition(".")[0] in PEERS for name in modules)
    environment = _environment({} if alone else ONE_THREAD)
    environment |= {name: value for name, value in read if value is not None}
    return ForkServer(("tuner.process.child_main", *modules), environment)


os.register_at_fork(after_in_child=_server.cache_clear)

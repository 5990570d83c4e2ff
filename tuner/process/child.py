"""A child process that stays alive between calls, runs one at a time, and is killed at a deadline.

TVM's ``PopenWorker``, which MetaSchedule's builder and runner use, would not do. Its deadline is a
timer thread in the child, which does not run while a native call holds the interpreter lock: a
kernel that hangs would hang the job. Its child outlives a killed parent. And ``LocalBuilder`` makes
a new pool, which imports TVM again, for every batch.
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

from tuner.errors import ChildCrashed, ChildTimeout, MachineError
from tuner.process import channel
from tuner.process.channel import Deadline, Malformed
from tuner.process.confine import Confinement
from tuner.process.fork_server import Forked, ForkFailed, ForkServer
from tuner.process.scratch import temporary_folder
from tuner.process.stopping import check_stopped

OWN_SIGNAL_SECONDS = 1.0
"""A child may end by SIGTERM up to this long before this process gets its own SIGTERM."""
START_SECONDS = 60.0
ANSWER_BYTES = 64 << 20
STDERR_TAIL = 2000
"""How many bytes of standard error's end are reported when a child dies."""
READ_AT_IMPORT = ("TVM_USE_RUNTIME_LIB",)
"""Environment variables that modules read when they are imported. Children for which these are
equal are forked from the same process, whatever their other variables are."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""The environment in which modules other than PEERS are imported, before a child is forked."""
PEERS = ("scipy", "torch")
"""Libraries that keep their usual number of threads, if a child imports nothing else. After the
fork they make new threads once they need them."""
NEEDED = ("tuner", "tvm")
"""Packages whose modules every call needs. Other modules, such as a peer's, may be missing."""
SECRET = ("TUNER_", "PG")
"""Prefixes of environment variables that no child gets: a candidate must not learn where the
database is."""

T = TypeVar("T")


class Child:
    """A child process that runs module-level functions, in a process group of its own.

    The process starts with the first call, and again with the next call after a crash, a timeout or
    :meth:`close`. Starting does not count towards a call's deadline. Two threads must not use a
    child at once, except for the methods that say so.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        niceness: int = 0,
        confinement: Confinement | None = None,
        answer_bytes: int = ANSWER_BYTES,
        importing: Sequence[str] = (),
    ) -> None:
        """``environment`` and ``niceness`` are added to those of this process. The child is killed
        if its answer is longer than ``answer_bytes``. It is forked from a process that has imported
        the modules ``importing``. Its temporary folder is this thread's present one."""
        self._environment = _environment({"TMPDIR": str(temporary_folder()), **(environment or {})})
        read = {name: self._environment.get(name) for name in READ_AT_IMPORT}
        self._server = _server(tuple(importing), tuple(read.items()))
        self._needed = [name for name in importing if name.partition(".")[0] in NEEDED]
        self._niceness, self._confinement = niceness, confinement
        self._answer_bytes = answer_bytes
        if confinement is not None and confinement.folder is not None:
            # the folder is all that may be written, and CUDA's cache of compiled code is elsewhere
            self._environment |= {"TMPDIR": confinement.folder, "CUDA_CACHE_DISABLE": "1"}
        self._process: Forked | None = None
        self._channel: socket.socket | None = None
        self._calls = 0  # of the running process
        self._stderr: Any = None
        self._killed = self._interrupted = False

    @property
    def pid(self) -> int | None:
        """The running process's id; None before the first call and after :meth:`close`."""
        return self._process.pid if self._process else None

    def call(
        self,
        function: Callable[..., T],
        *arguments: Any,
        timeout: float,
        check: Callable[[], None] = check_stopped,
    ) -> T:
        """Call ``function(*arguments)`` in the child, and return what it returns.

        Arguments and answer are sent as JSON, according to the function's annotations. ``check()``
        is called before the call, and about twice a second during it. If it raises while the child
        works, the child is killed.

        Raise ChildError if the function raises, ChildTimeout if it takes longer than ``timeout``
        seconds, not counting the time for which this process was stopped, and ChildCrashed if the
        child dies or sends something that is no answer. The last error is a MachineError if the
        child can't be started, can't import what each call needs, or is killed by another process.
        After a timeout or a wrong answer the child is killed.
        """
        request = channel.request(function, arguments)
        check()
        check = partial(self._check, check)
        connection = self._started(check)
        self._calls += 1
        deadline = Deadline(timeout)
        try:
            channel.send(connection, request, timeout)
            answer = channel.receive(connection, self._answer_bytes, deadline, check)
            return channel.read_answer(self._calls, function, answer)
        except TimeoutError as error:
            self.close()
            raise ChildTimeout(timeout) from error
        except Malformed as error:
            self.close()
            raise ChildCrashed(f"killed because its answer is invalid: {error}") from error
        except (EOFError, ConnectionError) as error:
            raise self._post_mortem(check) from error

    def kill(self) -> None:
        """End the process for good. The running call and all later ones raise ChildCrashed. Any
        thread may call this. :meth:`close` must still be called."""
        self._killed = True
        self.interrupt()

    def interrupt(self) -> None:
        """End the process. The running call raises ChildCrashed, and the next call starts a new
        process. Any thread may call this."""
        self._interrupted = True
        self._signal()

    def pause(self) -> None:
        """Stop the process and those of its group until :meth:`resume`. A process that has not
        started is not paused. Any thread may call this."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause. Any thread may call this."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the process and all of its group, and wait for its end. No call of another thread
        may be running."""
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
        """Call ``check()``, and kill the process if it raises."""
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
        """Return the channel to the running process, which is started if there is none."""
        if self._process is not None and (
            self._process.poll() is not None or not self._is_drained()
        ):
            self.close()
        if self._channel is None:
            self._start(check)
        assert self._channel is not None  # noqa: S101  # _start() has just set it
        return self._channel

    def _is_drained(self) -> bool:
        """Return whether nothing is left to be read. What a candidate has sent unasked would be
        taken for the next call's answer."""
        return self._channel is not None and channel.is_drained(self._channel)

    def _start(self, check: Callable[[], None]) -> None:
        self._channel, far_end = socket.socketpair()
        self._calls, self._interrupted = 0, False
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        limits = self._confinement and asdict(self._confinement)
        try:
            with far_end:
                self._process = self._server.fork(
                    "tuner.process.child_main:main",
                    (self._niceness, limits, self._needed),
                    self._stderr.fileno(),
                    far_end.fileno(),
                    self._environment,
                    START_SECONDS,
                    check,
                )
        except TimeoutError as error:
            self.close()
            raise MachineError(f"the child did not start within {START_SECONDS:g} s") from error
        except (EOFError, ConnectionError) as error:
            self.close()
            raise MachineError("the process that forks children died") from error
        except ForkFailed as error:
            self.close()
            raise MachineError(f"no process could be started: {error}") from error
        except BaseException:  # no server could be started, or ``check()`` has raised
            self.close()
            raise
        if self._killed:  # kill() may have come before there was a process to signal
            self.interrupt()
        try:
            channel.receive(self._channel, self._answer_bytes, Deadline(START_SECONDS), check)
        except TimeoutError as error:
            self.close()
            raise MachineError(f"the child did not start within {START_SECONDS:g} s") from error
        except (EOFError, ConnectionError) as error:
            raise self._post_mortem(check) from error

    def _post_mortem(self, check: Callable[[], None]) -> ChildCrashed:
        """Return an error that says how the process ended, with the end of its standard error.
        Close it. If it ended by SIGTERM, call ``check()`` for a while."""
        assert self._process is not None  # noqa: S101  # only called with a process
        code = self._process.wait(timeout=5)
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - STDERR_TAIL))
        said = self._stderr.read().decode(errors="replace").strip()
        self.close()
        if code == -signal.SIGTERM:
            # whoever stops a service sends SIGTERM to all its processes, perhaps later to this one
            deadline = time.monotonic() + OWN_SIGNAL_SECONDS
            while time.monotonic() < deadline:
                check()
                time.sleep(0.05)
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL and not self._interrupted:
            how += ", which the kernel sends if memory runs out"
            return MachineError(f"the process was killed ({how}){': ' + said if said else ''}")
        blamed = ChildCrashed if self._calls or self._interrupted else MachineError
        return blamed(f"the process died ({how}){': ' + said if said else ''}")


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with the changes, but without its SECRET variables."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith(SECRET)}
    return {**ours, **changes}


@cache
def _server(modules: tuple[str, ...], read: tuple[tuple[str, str | None], ...]) -> ForkServer:
    """Return the process that forks children which need these modules, imported with the values
    ``read`` of the variables READ_AT_IMPORT."""
    alone = bool(modules) and all(name.partition(".")[0] in PEERS for name in modules)
    environment = _environment({} if alone else ONE_THREAD)
    environment |= {name: value for name, value in read if value is not None}
    return ForkServer(("tuner.process.child_main", *modules), environment)


# a fork of this process must not use its servers: they die with their parent
os.register_at_fork(after_in_child=_server.cache_clear)

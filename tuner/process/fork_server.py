"""Child processes forked from one that has imported what they need.

Importing TVM takes seconds, a fork takes milliseconds. A process that forks should have one thread
and no GPU open. Nobody knows that of the program that calls us, so a server of its own imports,
forks, and says how each child ended. It ends with the process that started it.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tuner.process.imports import bring
from tuner.process.stopping import LOOK_SECONDS, check_stopped

REQUEST_BYTES = 1 << 20
STATUS_BYTES = 16
MOST_DESCRIPTORS = 8


class Forked:
    """A process that a server has forked: as much of ``subprocess.Popen`` as a child needs."""

    def __init__(
        self, keeper: socket.socket, timeout: float, check: Callable[[], None] = check_stopped
    ) -> None:
        """Raises TimeoutError after so many seconds, EOFError if the server has ended, and what
        ``check()`` raises, which is called about twice a second meanwhile."""
        self._keeper = keeper
        self.returncode: int | None = None
        deadline = time.monotonic() + timeout
        while True:
            keeper.settimeout(LOOK_SECONDS)
            with suppress(TimeoutError):
                said = keeper.recv(STATUS_BYTES)
                break
            check()
            if time.monotonic() > deadline:
                raise TimeoutError
        if not said:
            raise EOFError
        self.pid = int(said)

    def poll(self) -> int | None:
        """Its exit code, or a signal's number negated; None while it runs."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """The same, after at most ``timeout`` seconds."""
        if self.returncode is None:
            self._keeper.settimeout(timeout)
            with suppress(TimeoutError, BlockingIOError):
                said = self._keeper.recv(STATUS_BYTES)
                self.returncode = int(said) if said else -signal.SIGKILL  # with its server
        return self.returncode

    def release(self) -> None:
        """End what is left of it. Only now another process can have its number."""
        self._keeper.close()


class ForkServer:
    """A process that has imported ``modules``. It starts with the first fork; threads may share
    it."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._modules, self._environment = tuple(modules), dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def fork(
        self,
        function: str,
        arguments: Sequence[Any],
        output: int,
        channel: int,
        environment: Mapping[str, str],
        timeout: float,
        check: Callable[[], None] = check_stopped,
    ) -> Forked:
        """A process of a group of its own that calls ``module:function`` with the descriptor
        ``channel`` and the arguments, which must be JSON's. It has that environment and this
        process's working folder, and writes what it prints to ``output``. Raises as :class:`Forked`
        does."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([function, arguments, dict(environment), str(Path.cwd())]).encode()
        try:
            with theirs, self._lock:
                socket.send_fds(self._started(), [request], [theirs.fileno(), output, channel])
            return Forked(ours, timeout, check)
        except BaseException:
            ours.close()  # the server then ends what it forks
            raise

    def _started(self) -> socket.socket:
        if self._process is None or self._process.poll() is not None:
            if self._requests is not None:
                self._requests.close()
            requests, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with far_end:
                try:
                    self._process = self._start(far_end.fileno())
                except OSError:  # as where Python itself is gone
                    requests.close()
                    raise
            self._requests = requests
        assert self._requests is not None  # noqa: S101  # it comes with the process
        return self._requests

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(descriptor), *self._modules],
            env=self._environment,
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )


class _Server:
    """The far end of a :class:`ForkServer`: one thread, until its parent ends."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._parent = os.pidfd_open(os.getppid())
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._running: dict[int, socket.socket] = {}
        self._told: set[int] = set()
        self._selector = selectors.DefaultSelector()
        for readable in (requests, self._parent, self._woken):
            self._selector.register(readable, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._parent:
                    return
                if key.fileobj == self._woken:
                    os.read(self._woken, REQUEST_BYTES)
                elif key.fileobj == self._requests:
                    message, descriptors, _, _ = socket.recv_fds(
                        self._requests, REQUEST_BYTES, MOST_DESCRIPTORS
                    )
                    if not message:
                        return
                    self._fork(json.loads(message), descriptors)
                else:
                    self._forget(key.data)
            self._tell()

    def _fork(self, request: list[Any], descriptors: list[int]) -> None:
        keeper = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            _run(*request, *descriptors[1:])
        os.setpgid(pid, pid)  # before anybody can want to end the group
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        with suppress(
            OSError
        ):  # whoever asked waits no more: the far end is closed, and is seen next
            keeper.send(str(pid).encode())
        self._running[pid] = keeper
        self._selector.register(keeper, selectors.EVENT_READ, pid)

    def _tell(self) -> None:
        """Say of each child that has ended how. It stays a zombie, which keeps its number."""
        for pid in self._running.keys() - self._told:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self._told.add(pid)
                with suppress(OSError):
                    self._running[pid].send(str(code).encode())

    def _forget(self, pid: int) -> None:
        keeper = self._running.pop(pid)
        self._told.discard(pid)
        self._selector.unregister(keeper)
        keeper.close()
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _run(
    function: str,
    arguments: list[Any],
    environment: dict[str, str],
    folder: str,
    output: int,
    channel: int,
) -> NoReturn:
    """What a child does, from its first moment to its last."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for standard in (1, 2):
            os.dup2(output, standard)
        os.closerange(3, channel)  # no candidate may reach the server
        os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        module, _, name = function.partition(":")
        getattr(importlib.import_module(module), name)(channel, *arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    bring(sys.argv[2:])
    _Server(requests).serve()


if __name__ == "__main__":
    main()

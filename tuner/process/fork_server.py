"""A server that forks child processes after it has imported the modules that they need.

Importing TVM takes seconds, a fork takes milliseconds. But a process that forks should have one
thread and no GPU open, and the program that uses convtune may have more. So a separate process
imports, forks, and reports how each child ended. It ends with the process that started it.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tuner.process import own_modules
from tuner.process.imports import preload
from tuner.process.stopping import POLL_SECONDS, check_stopped

REQUEST_BYTES = 1 << 20
STATUS_BYTES = 16
MOST_DESCRIPTORS = 8


class ForkFailed(Exception):
    """The server could not fork a process for a request. It goes on with others."""


class Forked:
    """A process that a server has forked, with the part of ``subprocess.Popen``'s interface that a
    :class:`~tuner.process.child.Child` needs."""

    def __init__(
        self, keeper: socket.socket, timeout: float, check: Callable[[], None] = check_stopped
    ) -> None:
        """Wait until the server has forked the process, and call ``check()`` about twice a second.

        Raise TimeoutError after ``timeout`` seconds, EOFError if the server has ended, ForkFailed
        if it could not fork, and what ``check()`` raises."""
        self._keeper = keeper
        self.returncode: int | None = None
        deadline = time.monotonic() + timeout
        while True:
            keeper.settimeout(POLL_SECONDS)
            with suppress(TimeoutError):
                status = keeper.recv(STATUS_BYTES)
                break
            check()
            if time.monotonic() > deadline:
                raise TimeoutError
        if not status:
            raise EOFError
        self.pid = int(status)
        if self.pid < 0:
            raise ForkFailed(os.strerror(-self.pid))

    def poll(self) -> int | None:
        """Return the process's exit code, or a signal's number negated; None while it runs."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the process's end, at most ``timeout`` seconds, and return what :meth:`poll`
        returns."""
        if self.returncode is None:
            self._keeper.settimeout(timeout)
            with suppress(TimeoutError, BlockingIOError):
                status = self._keeper.recv(STATUS_BYTES)
                # if the server has ended without a report, the process was killed with it
                self.returncode = int(status) if status else -signal.SIGKILL
        return self.returncode

    def release(self) -> None:
        """Have the server kill what is left of the process group. Until then no other process can
        get its id."""
        self._keeper.close()


class ForkServer:
    """A process that has imported ``modules`` and forks children. It starts with the first fork.
    Threads may share it."""

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
        """Fork a child that calls ``function``, given as ``module:name``, with the descriptor
        ``channel`` and the arguments, which must be JSON.

        The child has a process group of its own, the given environment and this process's working
        folder, or the root if that folder was removed. It writes what it prints to the descriptor
        ``output``. Raise as :class:`Forked` does."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([function, arguments, dict(environment), _working_folder()]).encode()
        try:
            with theirs, self._lock:
                socket.send_fds(self._started(), [request], [theirs.fileno(), output, channel])
            return Forked(ours, timeout, check)
        except BaseException:
            ours.close()  # the server then kills the child that it has forked or will fork
            raise

    def _started(self) -> socket.socket:
        """Return the socket for requests to the server, which is started unless it runs."""
        if self._process is None or self._process.poll() is not None:
            if self._requests is not None:
                self._requests.close()
            requests, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with far_end:
                try:
                    self._process = self._start(far_end.fileno())
                except OSError:  # for example, Python itself has been removed
                    requests.close()
                    raise
            self._requests = requests
        assert self._requests is not None  # noqa: S101  # it comes with the process
        return self._requests

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            own_modules.command(__name__, str(descriptor), *self._modules),
            cwd=_working_folder(),  # without one, Python refuses relative paths
            env=self._environment | own_modules.environment(),
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )


def _working_folder() -> str:
    """Return this process's working folder; the root if somebody has removed it."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"


class _Server:
    """The loop that a :class:`ForkServer`'s process runs, in one thread, until its parent ends."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._parent = os.pidfd_open(os.getppid())
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._running: dict[int, socket.socket] = {}
        self._reported: set[int] = set()
        self._selector = selectors.DefaultSelector()
        for readable in (requests, self._parent, self._woken):
            self._selector.register(readable, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork children on request and report their ends, until the parent ends."""
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
                    self._reap(key.data)
            self._report_ends()

    def _fork(self, request: list[Any], descriptors: list[int]) -> None:
        keeper = socket.socket(fileno=descriptors[0])
        try:
            pid = os.fork()
        except OSError as error:  # for example, this user has too many processes
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            _run(*request, *descriptors[1:])
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        if pid < 0:
            with keeper, suppress(OSError):
                keeper.send(str(pid).encode())
            return
        os.setpgid(pid, pid)  # before anybody knows the process and may kill its group
        with suppress(OSError):  # the far end was closed, which the loop sees next
            keeper.send(str(pid).encode())
        self._running[pid] = keeper
        self._selector.register(keeper, selectors.EVENT_READ, pid)

    def _report_ends(self) -> None:
        """Report how children have ended. They stay zombies, so that nobody else gets their ids."""
        for pid in self._running.keys() - self._reported:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self._reported.add(pid)
                with suppress(OSError):
                    self._running[pid].send(str(code).encode())

    def _reap(self, pid: int) -> None:
        """Kill what is left of a child's group and reap the child, which was released."""
        keeper = self._running.pop(pid)
        self._reported.discard(pid)
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
    """Run a forked child: set up its signals, descriptors, environment and folder, call the
    function, and exit."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for standard in (1, 2):
            os.dup2(output, standard)
        os.closerange(3, channel)  # a candidate must not reach the server's sockets
        os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # a module that the server imported may have asked for it
        os.chdir(folder)
        module, _, name = function.partition(":")
        getattr(importlib.import_module(module), name)(channel, *arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    """Serve the socket of the first argument, after importing the modules of the others."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    preload(sys.argv[2:])
    _Server(requests).serve()


if __name__ == "__main__":
    main()

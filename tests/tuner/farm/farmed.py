"""Start a farm for tests: a tracker and RPC servers as processes on the loopback interface."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from tests.ports import free_port
from tuner.farm import link

ROOT = Path(__file__).parents[3]
SECONDS = 90.0


class Process:
    """A ``python -m`` process whose output goes to the file ``log``. It has a POSIX session of its
    own. It runs in the network namespace ``namespace``, or in this process's if that is empty."""

    def __init__(
        self, folder: Path, name: str, *command: str, namespace: str = "", **settings: str
    ) -> None:
        self.log = folder / f"{name}.log"
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        with self.log.open("wb") as said:
            self.process = subprocess.Popen(
                [*inside, sys.executable, "-m", *command],
                cwd=ROOT,
                env=os.environ | {"TMPDIR": str(folder), "TUNER_LOG_FORMAT": "json"} | settings,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def said(self, event: str) -> bool:
        return event in self.log.read_text()

    def sessions(self) -> list[psutil.Process]:
        """Return the child processes that serve workers' sessions, without the fork server."""
        return [each for each in psutil.Process(self.process.pid).children() if not forks(each)]

    def kill(self) -> None:
        """Send SIGKILL to the process and all its descendants, as if the host had lost power."""
        own = psutil.Process(self.process.pid)
        for each in [own, *own.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):  # a session may just have ended
                each.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)


class Tracker(Process):
    """TVM's RPC tracker on a free port; the constructor returns when it answers."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", namespace: str = "") -> None:
        self.address = (host, free_port())
        port = self.address[1]
        listening = ("--host", host, "--port", str(port), "--port-end", str(port + 1))
        module = "tvm.exec.rpc_tracker"
        runtime = {"TVM_USE_RUNTIME_LIB": "1"}  # without its compiler TVM imports twice as fast
        super().__init__(folder, "tracker", module, *listening, namespace=namespace, **runtime)
        until(self._answers)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(self.address) == 0


class Server(Process):
    """An RPC server. ``module`` is its main module: by default the product's, else a test's."""

    def __init__(
        self,
        folder: Path,
        name: str,
        tracker: Tracker,
        key: str,
        module: str = "tuner.farm.server",
        *,
        host: str = "127.0.0.1",
        namespace: str = "",
    ) -> None:
        given = {"tracker": tracker.address, "key": key, "host": host, "address": host}
        given |= {"port": free_port(), "target": "cpu"}
        super().__init__(folder, name, module, json.dumps(given), namespace=namespace)

    def ready(self) -> "Server":
        until(lambda: self.said("rpc_server_started"))
        return self


def forks(process: psutil.Process) -> bool:
    """Return whether the process is a fork server."""
    with suppress(psutil.Error):  # the process may just have ended
        return "tuner.process.fork_server" in process.cmdline()
    return False


def connect_and_reset(tracker: tuple[str, int], key: str) -> None:
    """Begin a session, then end this process so that its connection is reset, not closed."""
    link.connect(tracker, key)
    for opened in psutil.Process().net_connections("tcp"):
        if opened.raddr:
            with socket.socket(fileno=os.dup(opened.fd)) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os._exit(1)


def until(look: Callable[[], object], seconds: float = SECONDS) -> None:
    """Call ``look`` until it is true; fail the test if that takes longer than ``seconds``."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)

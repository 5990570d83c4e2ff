"""What tests run in child processes, which find it by its import path."""

import ctypes
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def same(value: Any) -> Any:
    return value


def fail(message: str) -> None:
    raise ValueError(message)


def pid() -> int:
    return os.getpid()


def load(module: str) -> None:
    importlib.import_module(module)


def variable(name: str) -> str | None:
    return os.environ.get(name)


def crash() -> None:
    """As a wild pointer does."""
    os.write(2, b"about to fall\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(code: int) -> None:
    os._exit(code)


def hang() -> None:
    """In native code that holds the interpreter's lock, so that no thread of Python can act."""
    ctypes.PyDLL(None).pause()


def meet(mine: Path, other: Path) -> bool:
    """Whether the other comes while this one is here."""
    mine.touch()
    deadline = time.monotonic() + 20
    while not other.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return other.exists()


def unpicklable() -> Any:
    return lambda: None


def allocate(size: int) -> int:
    return len(bytearray(size))


def write(path: Path) -> None:
    path.write_text("written")


def remove(path: Path) -> None:
    path.unlink()


def fork() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return child


def run_program() -> int:
    return subprocess.run(["true"], check=True).returncode


def start_thread() -> bool:
    ran = threading.Event()
    threading.Thread(target=ran.set).start()
    return ran.wait(10)


def connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as asked:
        asked.connect(address)


def signal_process(process: int) -> None:
    os.kill(process, signal.SIGTERM)


def noisy(lines: int) -> None:
    for line in range(lines):
        print("noise", line, file=sys.stderr)
    sys.stderr.flush()
    os.abort()


def grandchild(then: Callable[[], None] | None, told: Path) -> None:
    """Start a long process, write its id, and do the next thing."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    told.write_text(str(process.pid))
    process.returncode = 0  # or its finalizer would remark that it runs on
    if then is not None:
        then()


def gone(process: int, within: float = 10.0) -> bool:
    """Whether the process has ended, at the latest after so many seconds; a zombie has."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        status = Path(f"/proc/{process}/stat")
        try:
            if status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def write_cases_later(go: Path, workload_key: str, directory: Path, seed: int) -> None:
    from tuner.measure.trial import write_cases  # not for all: its imports take a while

    while not go.exists():
        time.sleep(0.01)
    write_cases(workload_key, directory, seed)


def tell_and_hang(_: str, directory: Path, *__: Any) -> None:
    (directory / "here").write_text(str(os.getpid()))
    hang()

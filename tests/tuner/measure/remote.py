"""Functions that tests run in child processes, which import them by name."""

import ctypes
import errno
import fcntl
import importlib
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Literal, cast

from tuner.process.confine import Confinement, confine

PR_SET_NAME = 15


def same(value: Any) -> Any:
    return value


def typed(path: Path, confinement: Confinement) -> tuple[Path, dict[str, float], Confinement]:
    """Return values of the kinds that JSON lacks: a path, NaN and a dataclass."""
    assert confinement.folder is not None
    return path / confinement.folder[1:], {"nan": float("nan"), "whole": 1}, confinement


def tensors() -> int:
    """Return for how many workloads this process has tensors ready."""
    from tuner.measure import trial

    return trial._tensors.cache_info().currsize


def take_a_while(workload_key: str, directory: Path, kind: str, cache_bytes: int) -> None:
    time.sleep(0.5)


def get_no_device(workload_key: str, directory: Path, kind: str, cache_bytes: int) -> None:
    raise OSError("no device")


def find_no_device_memory(order: Any) -> None:
    raise RuntimeError("CUDA: CUDA_ERROR_OUT_OF_MEMORY")


def find_no_descriptor(order: Any) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def find_no_module(order: Any) -> None:
    importlib.import_module("cuda_that_is_gone")


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(message: str) -> None:
    raise ValueError(message)


def pid() -> int:
    return os.getpid()


def load(module: str) -> None:
    importlib.import_module(module)


def variable(name: str) -> str | None:
    return os.environ.get(name)


def temporary_folder() -> str:
    return tempfile.gettempdir()


def crash() -> None:
    """Die by SIGSEGV after a line on standard error, as by a wild pointer."""
    os.write(2, b"about to fall\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(code: int) -> None:
    os._exit(code)


def hang() -> None:
    """Wait for ever in native code that holds the interpreter's lock, so no Python thread runs."""
    ctypes.PyDLL(None).pause()


def meet(mine: Path, other: Path) -> bool:
    """Create the file ``mine``; return whether the file ``other`` appears within 20 s."""
    mine.touch()
    deadline = time.monotonic() + 20
    while not other.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return other.exists()


def without_json() -> Any:
    return lambda: None


def not_as_annotated() -> int:
    return cast(int, "one")


def without_annotations(value):  # type: ignore[no-untyped-def]
    return value


def long_text(size: int) -> str:
    return "x" * size


def descriptors() -> list[int]:
    """Return the descriptors of this process's sockets, which lead to its parent."""
    opened = (int(path.name) for path in Path("/proc/self/fd").iterdir())
    return [each for each in opened if _is_socket(each)]


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # the descriptor of the listed folder itself is closed already
        return False


def speak(text: list[int], stay: float) -> int:
    """Write the bytes ``text`` to the parent, as a candidate that finds the socket could; then
    sleep for ``stay`` seconds."""
    for each in descriptors():
        os.write(each, bytes(text))
    time.sleep(stay)
    return 1


def fail_unreadably() -> None:
    raise ValueError("\ud800\0")


def allocate(size: int) -> int:
    return len(bytearray(size))


def write(path: Path) -> None:
    path.write_text("written")


def remove(path: Path) -> None:
    path.unlink()


def write_beyond(path: Path, size: int) -> None:
    """Write to the last byte that a limit of ``size`` bytes allows, then one byte more."""
    with path.open("wb", buffering=0) as file:
        file.seek(size - 1)
        assert file.write(b"ab") == 1
        file.write(b"b")


def stretch(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def make_folder(path: Path) -> None:
    path.mkdir()


def rename(path: Path, to: Path) -> None:
    path.rename(to)


def link(path: Path, to: Path) -> None:
    to.hardlink_to(path)


def symlink(path: Path, to: Path) -> None:
    to.symlink_to(path)


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def change_mode(path: Path) -> None:
    path.chmod(0)


def change_owner(path: Path) -> None:
    os.chown(path, os.getuid(), os.getgid())


def name_threads(name: str) -> str:
    """Name another thread by its file in /proc, as CUDA does; return the name that is read back."""
    go = threading.Event()
    other = threading.Thread(target=go.wait)
    other.start()
    try:
        path = Path(f"/proc/self/task/{other.native_id}/comm")
        path.write_text(name)
        return path.read_text().strip()
    finally:
        go.set()
        other.join()


def write_number(path: Path, number: int) -> None:
    path.write_text(str(number))


def arrange_itself() -> None:
    """Make the system calls by which TVM's, CUDA's and other runtimes arrange their own threads,
    sockets and memory."""
    go = threading.Event()
    other = threading.Thread(target=go.wait)
    other.start()
    try:
        assert other.native_id is not None
        os.sched_setaffinity(other.native_id, os.sched_getaffinity(0))
    finally:
        go.set()
        other.join()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        for end in socket.socketpair(socket.AF_UNIX, kind):
            end.close()
        socket.socket(socket.AF_UNIX, kind).close()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NAME, b"named") == 0
    os.close(os.memfd_create("shared"))


def call(number: int) -> int:
    """Make a system call by its number, with zeros; return its errno, or 0 if it succeeds."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.syscall(number, 0, 0, 0) < 0 else 0


def limits() -> dict[str, tuple[int, int]]:
    return {
        name: resource.getrlimit(getattr(resource, name))
        for name in ("RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_CORE")
    }


def limit_process(process: int) -> None:
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, 3))


def confined_below(confinement: Confinement, lower: int) -> dict[str, tuple[int, int]]:
    """Set a lower soft limit on memory and lower hard limits on files and core dumps, then confine
    this process; return its limits."""
    resource.setrlimit(resource.RLIMIT_DATA, (lower, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (lower, lower))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    confine(confinement)
    return limits()


def fork_in(_: Path) -> None:
    """Fork, as a driver that starts a program does."""
    fork()


def write_in(folder: Path) -> None:
    write(folder / "inside")


def fail_in(_: Path) -> None:
    """Fail for another reason than confinement, as a broken driver does."""
    fail("planted")


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


def connect(family: int, address: tuple[str, int] | str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as asked:
        asked.connect(address)


def signal_process(process: int) -> None:
    os.kill(process, signal.SIGTERM)


def signal_by_file(process: int, number: int) -> None:
    """Have the kernel send a signal to the process as soon as a socket can be read."""
    mine, far = socket.socketpair()
    with mine, far:
        fcntl.fcntl(mine, fcntl.F_SETOWN, process)
        fcntl.fcntl(mine, fcntl.F_SETSIG, number)
        fcntl.fcntl(mine, fcntl.F_SETFL, os.O_ASYNC)
        far.send(b"now")
        time.sleep(0.2)


def noisy(lines: int) -> None:
    for line in range(lines):
        print("noise", line, file=sys.stderr)
    sys.stderr.flush()
    os.abort()


def grandchild(then: Literal["crash", "hang"] | None, told: Path) -> None:
    """Start a process of 600 s, write its id to the file ``told``, then crash, hang or return."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    told.write_text(str(process.pid))
    process.returncode = 0  # else Popen's finalizer would warn that the process still runs
    if then is not None:
        {"crash": crash, "hang": hang}[then]()


def gone(process: int, within: float = 10.0) -> bool:
    """Return whether the process ends within that many seconds. A zombie has ended."""
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


def write_cases_later(workload_key: str, directory: Path, seed: int) -> None:
    """Write the cases once the file that the environment variable GO names exists."""
    from tuner.measure.trial import write_cases  # imported here, as it is slow and rarely needed

    while not Path(os.environ["GO"]).exists():
        time.sleep(0.01)
    write_cases(workload_key, directory, seed)


def tell_and_hang(_: str, directory: Path, __: int) -> None:
    (directory / "here").write_text(str(os.getpid()))
    hang()


def parent() -> int:
    return os.getppid()


def imported(module: str) -> bool:
    return module in sys.modules


def open_files() -> int:
    """Return the number of open files, not counting the three standard streams and sockets."""
    opened = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    return len(opened - {0, 1, 2} - set(descriptors()))

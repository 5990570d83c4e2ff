"""Functions that a test runs in a process of peers in place of its import or its compilation."""

import os
import signal
import time
from pathlib import Path

from tests.tuner.measure import remote


def ticking(workload_key: str, cases: Path, kind: str, group: str) -> None:
    """Write a line to the file "ticks" every 10 ms until there is a file "enough"."""
    with (cases / "ticks").open("w", buffering=1) as ticks:
        while not (cases / "enough").exists():
            ticks.write(f"{os.getpid()}\n")
            time.sleep(0.01)


def for_ever(group: str) -> None:
    """Stand in for the import of the libraries, and never end."""
    remote.hang()


def pytorchs_threads() -> int:
    import torch

    return int(torch.get_num_threads())


def threads_of_a_product() -> int:
    """Multiply two matrices, for which NumPy starts its threads; return this process's threads."""
    import numpy as np

    square = np.ones((512, 512))
    assert (square @ square == 512).all()
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


def crash(workload_key: str, cases: Path, kind: str, group: str) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(workload_key: str, cases: Path, kind: str, group: str) -> None:
    (cases / "hangs").touch()
    remote.hang()


def fail(workload_key: str, cases: Path, kind: str, group: str) -> None:
    raise ValueError("planted")

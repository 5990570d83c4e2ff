"""Ways in which a process of peers may begin. They run there in place of what compiles."""

import os
import signal
import time
from pathlib import Path

from tests.tuner.measure import remote


def ticking(workload_key: str, cases: Path, kind: str, group: str) -> None:
    """Another line a hundredth of a second, until there is a file "enough"."""
    with (cases / "ticks").open("w", buffering=1) as ticks:
        while not (cases / "enough").exists():
            ticks.write(f"{os.getpid()}\n")
            time.sleep(0.01)


def for_ever(group: str) -> None:
    """In place of what imports the libraries: it never has done so."""
    remote.hang()


def pytorchs_threads() -> int:
    import torch

    return int(torch.get_num_threads())


def threads_of_a_product() -> int:
    """Of this process, which has made those of linear algebra for it."""
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

"""How processes that run candidates are confined, and whether a GPU's driver allows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import structlog

from tuner.build.compile import EMPTY_WORKLOAD
from tuner.device.cuda import checked
from tuner.device.cuda_facts import device_files
from tuner.errors import ChildFailed
from tuner.measure.clock import take
from tuner.measure.cuda_clock import CudaClock
from tuner.measure.kernel import Kernel, Tensors
from tuner.measure.trial import (
    SAMPLE_BUDGET_SECONDS,
    SAMPLES,
    TRIAL_BUDGET_SECONDS,
    read_cases,
    write_cases,
)
from tuner.process.child import Child
from tuner.process.confine import Confinement

log = structlog.get_logger()

RUN_MEMORY = 0.75
"""Share of the machine's memory for the one process that runs candidates."""
EXERCISE_SECONDS = 60.0
ENVIRONMENT = {"TVM_USE_RUNTIME_LIB": "1"}
LIMITED = Confinement()
"""No bound on memory: PyTorch may start processes, and nobody knows how many."""


def of_candidates(kind: str, folder: str) -> Confinement:
    """The limits of a process that runs candidates on that kind of device, with its files in
    ``folder``."""
    if kind == "cpu":
        return _in_folder(folder, ())
    return _in_folder(folder, device_files()) if can_be_confined(exercise) else LIMITED


def can_be_confined(asked: Callable[[Path], None]) -> bool:
    """Whether the GPU's driver works in a confined process. ``asked`` does what a trial does; it
    gets the folder that may be written. A driver that works only without limits is logged. The
    answer takes seconds and is kept for the life of this process."""
    try:
        return _works_confined(asked)
    except ChildFailed:
        return True  # it works in neither: trials say why


@cache
def _works_confined(asked: Callable[[Path], None]) -> bool:
    """As above. Raises ChildFailed if it works in no process at all; that is not kept."""
    with TemporaryDirectory(prefix="convtune-confined-") as folder:
        try:
            _try(asked, folder, _in_folder(folder, device_files()))
        except ChildFailed as refused:
            _try(asked, folder, LIMITED)
            log.warning("candidates_not_confined", reason=str(refused))
            return False
    return True


def exercise(folder: Path) -> None:
    """Do with the driver what a trial does, without a candidate: allocate memory, compile, load
    and launch a kernel, time a graph. Raises what CUDA and TVM raise."""
    from cuda.bindings import runtime

    write_cases(EMPTY_WORKLOAD.key, folder, 0)
    case = read_cases(EMPTY_WORKLOAD.key, folder)[0]
    tensors = Tensors(EMPTY_WORKLOAD, "cuda")
    tensors.fill(case)
    tensors.errors(case)
    clock = CudaClock(cache_bytes=4, set_bytes=EMPTY_WORKLOAD.bytes)

    def clear() -> None:
        checked(runtime.cudaMemsetAsync(tensors.outputs[0].data_ptr(), 0, 4, clock.stream))

    take(clock.warm(Kernel(clear), SAMPLE_BUDGET_SECONDS), SAMPLES, TRIAL_BUDGET_SECONDS)


def _in_folder(folder: str, devices: tuple[str, ...]) -> Confinement:
    memory = int(RUN_MEMORY * psutil.virtual_memory().total)
    return Confinement(memory, folder, devices)


def _try(asked: Callable[[Path], None], folder: str, confinement: Confinement) -> None:
    with closing(Child(ENVIRONMENT, confinement=confinement)) as child:
        child.call(asked, Path(folder), timeout=EXERCISE_SECONDS)

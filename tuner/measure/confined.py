"""How the processes that try candidates are confined, and whether a GPU's driver bears it."""

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
"""Of the machine's memory, for the one process that tries candidates."""
EXERCISE_SECONDS = 60.0
ENVIRONMENT = {"TVM_USE_RUNTIME_LIB": "1"}
LIMITED = Confinement()
"""No memory bound: what starts processes, as PyTorch may, is not known beforehand."""


def of_candidates(kind: str, folder: str) -> Confinement:
    """What tries candidates on a device of that kind may do, its files being in the folder."""
    if kind == "cpu":
        return _in_folder(folder, ())
    return _in_folder(folder, device_files()) if bearable(exercise) else LIMITED


def bearable(asked: Callable[[Path], None]) -> bool:
    """Whether what a trial asks of the GPU's driver works in a confined process; ``asked`` gets
    the folder that may be written. Where it works in others alone, that is logged. Once there is
    an answer, which takes seconds, this process asks no more."""
    try:
        return _borne(asked)
    except ChildFailed:
        return True  # it works in neither: trials say why


@cache
def _borne(asked: Callable[[Path], None]) -> bool:
    """The same. Raises ChildFailed where it works in no process, and then knows nothing."""
    with TemporaryDirectory(prefix="convtune-confined-") as folder:
        try:
            _try(asked, folder, _in_folder(folder, device_files()))
        except ChildFailed as refused:
            _try(asked, folder, LIMITED)
            log.warning("candidates_not_confined", reason=str(refused))
            return False
    return True


def exercise(folder: Path) -> None:
    """What a trial asks of the driver, but for a candidate: memory, a kernel compiled, loaded and
    launched, a graph timed. Raises what CUDA or TVM raise."""
    from cuda.bindings import runtime

    write_cases(EMPTY_WORKLOAD.key, folder, 0)
    case = read_cases(folder)[0]
    tensors = Tensors(EMPTY_WORKLOAD, "cuda")
    tensors.fill(case)
    tensors.error(case)
    clock = CudaClock(cache_bytes=4, set_bytes=EMPTY_WORKLOAD.bytes)

    def clear() -> None:
        checked(runtime.cudaMemsetAsync(tensors.y.data_ptr(), 0, 4, clock.stream))

    take(clock.warm(Kernel(clear), SAMPLE_BUDGET_SECONDS), SAMPLES, TRIAL_BUDGET_SECONDS)


def _in_folder(folder: str, devices: tuple[str, ...]) -> Confinement:
    memory = int(RUN_MEMORY * psutil.virtual_memory().total)
    return Confinement(memory, folder, devices)


def _try(asked: Callable[[Path], None], folder: str, confinement: Confinement) -> None:
    with closing(Child(ENVIRONMENT, confinement=confinement)) as child:
        child.call(asked, Path(folder), timeout=EXERCISE_SECONDS)

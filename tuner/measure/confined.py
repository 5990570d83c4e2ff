"""The confinement of processes that run candidates, and whether a GPU's driver works in it."""

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
from tuner.process.scratch import temporary_folder

log = structlog.get_logger()

RUN_MEMORY = 0.75
"""Share of the machine's memory for the one process that runs candidates."""
PROBE_SECONDS = 60.0
"""Time limit for probing the GPU's driver."""
ENVIRONMENT = {"TVM_USE_RUNTIME_LIB": "1"}
LIMITED = Confinement()
"""The limits of processes that run peers, or libraries that have passed every check. Their memory
has no bound, because PyTorch may start any number of processes."""


def candidate_confinement(kind: str, folder: str) -> Confinement:
    """Return the limits of a process that runs candidates on a device of that kind (``cpu``,
    ``cuda``).

    It may write to ``folder`` only and, for a GPU, to the driver's device files. If the driver does
    not work within these limits, the process gets :data:`LIMITED`.
    """
    if kind == "cpu":
        return _in_folder(folder, ())
    return _in_folder(folder, device_files()) if can_be_confined(probe_driver) else LIMITED


def can_be_confined(probe: Callable[[Path], None]) -> bool:
    """Return whether the GPU's driver works in a confined process.

    ``probe`` does what a trial does with the driver. Its argument is the only folder that it may
    write to. A warning is logged if the driver works only without the limits. The answer takes
    seconds and is kept for the life of this process.
    """
    try:
        return _works_confined(probe)
    except ChildFailed:
        return True  # it does not work at all: the trials' errors will say why


@cache
def _works_confined(probe: Callable[[Path], None]) -> bool:
    """Return whether the driver works confined. Raise ChildFailed, which is not cached, if it works
    in no process at all."""
    with TemporaryDirectory(prefix="convtune-confined-", dir=temporary_folder()) as folder:
        try:
            _run_probe(probe, folder, _in_folder(folder, device_files()))
        except ChildFailed as refused:
            _run_probe(probe, folder, LIMITED)
            log.warning("candidates_not_confined", reason=str(refused))
            return False
    return True


def probe_driver(folder: Path) -> None:
    """Do with the driver what a trial does, without a candidate.

    Allocate memory, compile, load and launch a kernel, and time a graph. Raises what CUDA and TVM
    raise.
    """
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
    """Return a confinement to files in ``folder`` and to a share of the machine's memory."""
    memory = int(RUN_MEMORY * psutil.virtual_memory().total)
    return Confinement(memory, folder, devices)


def _run_probe(probe: Callable[[Path], None], folder: str, confinement: Confinement) -> None:
    """Call ``probe`` in a process with that confinement. Raises ChildFailed."""
    with closing(Child(ENVIRONMENT, confinement=confinement)) as child:
        child.call(probe, Path(folder), timeout=PROBE_SECONDS)

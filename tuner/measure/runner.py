"""Running candidates in a child that is killed at its deadline and replaced after a fault."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tuner.device import Device
from tuner.errors import ChildCrashed, ChildError, ChildTimeout
from tuner.measure.child import Child
from tuner.measure.confined import LIMITED, of_candidates
from tuner.measure.finals import EMPTY, ROUND_SECONDS, Finals, run_finals, verify
from tuner.measure.trial import Measured, RunOrder, measure, write_cases

RUN_SECONDS = 30.0
REFERENCE_SECONDS = 900.0
ANSWER_BYTES = 1 << 20
"""Of a process that tries candidates: what it has to say is short, and a candidate can say more."""

T = TypeVar("T")


class Runner:
    """Checks and times libraries of one workload on one device, one at a time.

    The inputs and their references are drawn once, into a folder that :meth:`close` removes. That
    takes seconds for large workloads: it goes on while the first libraries are built. What first
    asks for them waits, and raises a ChildFailed where they can't be had.
    """

    def __init__(
        self, workload_key: str, device: Device, seed: int = 0, timeout: float = RUN_SECONDS
    ) -> None:
        self._workload_key, self._device, self._timeout = workload_key, device, timeout
        self._folder = tempfile.TemporaryDirectory(prefix="convtune-cases-")
        self._child = Child(
            runtime_only(device),
            confinement=of_candidates(device.kind, self._folder.name),
            answer_bytes=ANSWER_BYTES,
        )
        self._thread = ThreadPoolExecutor(1)  # kept: the child dies with the thread that started it
        self._written = self._thread.submit(
            self._child.call,
            write_cases,
            workload_key,
            Path(self._folder.name),
            seed,
            timeout=REFERENCE_SECONDS,
        )

    def order(self, library: Path) -> RunOrder:
        """What a process is to measure, the cases being there."""
        self._written.result()
        return RunOrder(
            self._workload_key,
            library,
            Path(self._folder.name),
            self._device.kind,
            self._device.limits.cache_bytes,
        )

    def measure(self, library: Path) -> Measured:
        """What came of the library; a crash or a hang of its process is a value too."""
        order = self.order(library)
        try:
            measured = self._child.call(measure, order, timeout=self._timeout)
        except ChildTimeout as error:
            return Measured("run_timeout", error=str(error))
        except ChildCrashed as error:
            return Measured("run_error", error=str(error))
        except ChildError as error:
            self._child.close()  # a CUDA error stays with the process it happened in
            return Measured("run_error", error=str(error))
        if measured.status == "wrong_answer" and self._device.kind == "cuda":
            self._child.close()  # it may have written into the references, which lie there
        return measured

    @property
    def at_once(self) -> int:
        """One: the next is measured when the last is stored."""
        return 1

    @property
    def apart(self) -> bool:
        """A CPU that builds times badly; a GPU does not mind."""
        return self._device.kind == "cuda"

    def submit(self, library: Path) -> Future[Measured]:
        """:meth:`measure`, as soon as what was submitted before is measured."""
        return self._thread.submit(self.measure, library)

    def finals(self, libraries: dict[str, Path], with_peers: bool = True) -> Finals:
        """The round of these, ``empty`` among them. Raises ChildFailed."""
        order = self.order(libraries[EMPTY])
        return self.fresh(run_finals, order, libraries, with_peers, timeout=ROUND_SECONDS)

    def verify(self, library: Path) -> float:
        """The largest error of the library as it lies on disk. Raises ChildFailed."""
        return self.fresh(verify, self.order(library), timeout=ROUND_SECONDS)

    def ready(self) -> None:
        """Wait until inputs and references are there. Raises ChildFailed."""
        self._written.result()

    def fresh(self, function: Callable[..., T], *arguments: Any, timeout: float) -> T:
        """Run a function in a process that has run nothing before. The usual child is ended
        first: two would share the device."""
        self._written.result()
        self._child.close()
        child = Child(runtime_only(self._device), confinement=LIMITED)
        try:
            return child.call(function, *arguments, timeout=timeout)
        finally:
            child.close()

    def close(self) -> None:
        self._child.kill()
        self._thread.shutdown()
        self._child.close()
        self._folder.cleanup()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def runtime_only(device: Device) -> dict[str, str]:
    """Environment of a process that runs kernels: TVM without its compiler, as many threads as
    the device has."""
    environment = {"TVM_USE_RUNTIME_LIB": "1"}
    if device.kind == "cpu":
        environment["TVM_NUM_THREADS"] = str(device.limits.units)
    return environment

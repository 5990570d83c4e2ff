"""Running candidates in a child that is killed at its deadline and replaced after a fault."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tuner.device import Device
from tuner.errors import ChildCrashed, ChildError, ChildTimeout
from tuner.measure.child import Child
from tuner.measure.confine import Confinement
from tuner.measure.trial import Measured, RunOrder, measure, write_cases

RUN_SECONDS = 30.0
REFERENCE_SECONDS = 900.0
MEMORY_SHARE = 0.75
"""Of the machine's memory, for candidates."""

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
            runtime_only(device), confinement=_confinement(device, self._folder.name)
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
            return self._child.call(measure, order, timeout=self._timeout)
        except ChildTimeout as error:
            return Measured("run_timeout", error=str(error))
        except ChildCrashed as error:
            return Measured("run_error", error=str(error))
        except ChildError as error:
            self._child.close()  # a CUDA error stays with the process it happened in
            return Measured("run_error", error=str(error))

    def fresh(self, function: Callable[..., T], *arguments: Any, timeout: float) -> T:
        """Run a function in a process that has run nothing before. The usual child is ended
        first: two would share the device."""
        self._written.result()
        self._child.close()
        child = Child(runtime_only(self._device))
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


def _confinement(device: Device, folder: str) -> Confinement | None:
    """None on a GPU: its driver starts processes and writes where it likes."""
    if device.kind != "cpu":
        return None
    memory = int(MEMORY_SHARE * psutil.virtual_memory().total)
    return Confinement(writable=(folder,), memory_bytes=memory)


def runtime_only(device: Device) -> dict[str, str]:
    """Environment of a process that runs kernels: TVM without its compiler, as many threads as
    the device has."""
    environment = {"TVM_USE_RUNTIME_LIB": "1"}
    if device.kind == "cpu":
        environment["TVM_NUM_THREADS"] = str(device.limits.units)
    return environment

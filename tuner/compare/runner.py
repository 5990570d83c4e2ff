"""Running candidates in a child that is killed at its deadline and replaced after a fault."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tuner.compare.comparison import Comparison, Stage, compare
from tuner.compare.stage import EMPTY, KERNEL, enter_delivered, enter_libraries, enter_peers
from tuner.device.device import Device
from tuner.errors import ChildCrashed, ChildError, ChildTimeout
from tuner.library.runtime import threading_environment
from tuner.measure.confined import LIMITED, of_candidates
from tuner.measure.trial import Measured, RunOrder, measure, write_cases
from tuner.peers import DEVICE
from tuner.process.child import Child
from tuner.process.stopping import result_of

RUNTIME_ONLY = {"TVM_USE_RUNTIME_LIB": "1"}
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
        result_of(self._written)
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

    def compare(
        self, libraries: dict[str, Path], rivals: Collection[str] = (), groups: Sequence[str] = ()
    ) -> Comparison:
        """The round of these libraries, ``empty`` among them, and of those groups of peers, in
        processes that have run nothing before. Raises ChildFailed."""
        order = self.order(libraries[EMPTY])
        with self._processes() as process:
            stage = process(runtime_only(self._device))
            stage.enter(enter_libraries, order, libraries)
            if DEVICE in groups:
                stage.enter(enter_peers, order, DEVICE)
            beside = [process({}, order, group) for group in groups if group != DEVICE]
            found = compare([stage, *beside], rivals)
            clocks = stage.clocks() if self._device.kind == "cuda" else {}
            names = [name for name in libraries if name in found.entries]
            return replace(found.with_cold(stage.cold(order, names)), clocks=clocks)

    def deliver(
        self, library: Path, manifest: dict[str, Any], groups: Sequence[str] = ()
    ) -> Comparison:
        """The library as its user has it, loaded from disk and checked by a fresh process, in turns
        with those groups of peers: ``call``, and on a CPU ``kernel``. Raises ChildFailed."""
        order = self.order(library)
        with self._processes() as process:
            stage = process(RUNTIME_ONLY)
            stage.enter(enter_delivered, order, manifest)
            found = compare([stage, *(process({}, order, group) for group in groups)])
            cold = stage.cold(order, [KERNEL]) if KERNEL in found.entries else {}
            return found.with_cold(cold)

    def ready(self) -> None:
        """Wait until inputs and references are there. Raises ChildFailed."""
        result_of(self._written)

    def fresh(self, function: Callable[..., T], *arguments: Any, timeout: float) -> T:
        """Run a function in a process that has run nothing before. The usual child is ended
        first: two would share the device."""
        result_of(self._written)
        self._child.close()
        with closing(Child(runtime_only(self._device), confinement=LIMITED)) as child:
            return child.call(function, *arguments, timeout=timeout)

    @contextmanager
    def _processes(self) -> Iterator[Callable[..., Stage]]:
        """What starts stages; all end with the context. Given an order and a group of peers, the
        stage is entered by them."""
        self._child.close()
        with ExitStack() as stack:

            def start(environment: dict[str, str], *peers: Any) -> Stage:
                child = stack.enter_context(closing(Child(environment, confinement=LIMITED)))
                stage = Stage(child)
                if peers:
                    stage.enter_or_drop(f"peers ({peers[1]})", enter_peers, *peers)
                return stage

            yield start

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
    if device.kind == "cpu":
        return RUNTIME_ONLY | threading_environment(device.limits.units)
    return RUNTIME_ONLY

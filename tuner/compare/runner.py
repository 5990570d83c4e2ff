"""Running candidates in a child that is killed at its deadline and replaced after a fault."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import structlog

import templates
from tuner.compare.comparison import SETTLE_SECONDS, Comparison, Stage, compare
from tuner.compare.measuring import Delivered
from tuner.compare.peer_process import ON_A_GPU, RUNTIME, PeerProcess, child_of
from tuner.compare.stage import EMPTY, KERNEL, enter_delivered, enter_libraries, enter_peers, of
from tuner.device.device import Device
from tuner.errors import ChildCrashed, ChildError, ChildFailed, ChildTimeout
from tuner.library.runtime import threading_environment
from tuner.measure.confined import ENVIRONMENT, LIMITED, of_candidates
from tuner.measure.trial import Measured, RunOrder, get_ready, measure, write_cases
from tuner.measure.versions import of_peers
from tuner.peers import beside_kernels, here
from tuner.process.child import Child
from tuner.process.stopping import result_of

RUN_SECONDS = 30.0
REFERENCE_SECONDS = 900.0
ANSWER_BYTES = 1 << 20
"""Limit for an answer of a process that runs candidates. A candidate can make it send more."""
FEW = 4
AHEAD_MEMORY = 1 / 64
"""Peers compile while the job searches if a set of the workload's tensors takes at most this share
of the device's memory: each peer has one of its own, and candidates have theirs."""

log = structlog.get_logger()


class Runner:
    """Checks and times libraries of one workload on one device, one at a time.

    The inputs are drawn and their references computed once, into a folder that :meth:`close`
    removes. For large workloads that takes seconds, during which the first libraries are built.
    The first method that needs them waits, and raises ChildFailed if they can't be made. Then a GPU
    is made ready, too.

    ``peers`` are processes of groups of peers, which compile meanwhile, and end with the runner. On
    a CPU they pause while a library is measured. What else the worker does on the host pauses in
    the context of ``timing``, while peers are timed there.
    """

    def __init__(
        self,
        workload_key: str,
        device: Device,
        seed: int = 0,
        timeout: float = RUN_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
        peers: Mapping[str, PeerProcess] = MappingProxyType({}),
        timing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._workload_key, self._device, self._timeout = workload_key, device, timeout
        self._settle_seconds = settle_seconds
        self._peers, self._timing = dict(peers), timing
        with ExitStack() as unless_begun:  # no room for a folder, say
            for process in self._peers.values():
                unless_begun.callback(process.close)
            self._folder = tempfile.TemporaryDirectory(
                prefix="convtune-cases-", ignore_cleanup_errors=True
            )
            self._child = Child(
                runtime_only(device),
                confinement=of_candidates(device.kind, self._folder.name),
                answer_bytes=ANSWER_BYTES,
                importing=RUNTIME,
            )
            unless_begun.pop_all()
        self._thread = ThreadPoolExecutor(1)
        self._written = self._thread.submit(
            self._child.call,
            write_cases,
            workload_key,
            Path(self._folder.name),
            seed,
            timeout=REFERENCE_SECONDS,
        )
        self._ready = (
            self._thread.submit(self._get_ready) if self.overlaps_builds else self._written
        )
        for process in self._peers.values():
            if templates.parse_key(workload_key).bytes <= AHEAD_MEMORY * device.memory_bytes:
                process.compile(workload_key, self._written, Path(self._folder.name))

    def order(self, library: Path) -> RunOrder:
        """The order to measure a library. Waits for the cases, and for the GPU."""
        result_of(self._written)
        result_of(self._ready)
        return RunOrder(
            self._workload_key,
            library,
            Path(self._folder.name),
            self._device.kind,
            self._device.limits.cache_bytes,
            rough=self._settle_seconds == 0,
        )

    def measure(self, library: Path) -> Measured:
        """The result of a library. A crash or a hang of its process is a result, too."""
        order = self.order(library)
        try:
            with self._peers_paused():
                measured = self._child.call(measure, order, timeout=self._timeout)
        except ChildTimeout as error:
            return Measured("run_timeout", error=str(error))
        except ChildCrashed as error:
            return Measured("run_error", error=str(error))
        except ChildError as error:
            self._child.close()  # a CUDA error stays with the process it happened in
            return Measured("run_error", error=str(error))
        if measured.status == "wrong_answer" and self._device.kind == "cuda":
            self._child.close()  # it may have written into the references on the device
        return measured

    def _get_ready(self) -> None:
        """If that fails, the first library says why."""
        folder, limits = Path(self._folder.name), self._device.limits
        try:
            result_of(self._written)
            self._child.call(
                get_ready,
                self._workload_key,
                folder,
                self._device.kind,
                limits.cache_bytes,
                timeout=self._timeout,
            )
        except ChildFailed as error:
            self._child.close()
            log.warning("device_not_ready", reason=str(error))

    @property
    def max_in_flight(self) -> int:
        """One on a CPU: a library is measured when the result before it is stored. A GPU is given
        a few, so that it need not wait for the proposal of the next."""
        return FEW if self.overlaps_builds else 1

    @property
    def overlaps_builds(self) -> bool:
        """Builds disturb the times of a CPU, but not those of a GPU."""
        return self._device.kind == "cuda"

    @property
    def peer_versions(self) -> dict[str, str] | None:
        """Those of this machine; None of a rough round."""
        return of_peers(self._device) if self._settle_seconds > 0 else None

    def submit(self, library: Path) -> Future[Measured]:
        """:meth:`measure`, as soon as what was submitted before is measured."""
        return self._thread.submit(self.measure, library)

    def compare(
        self,
        libraries: dict[str, Path],
        finalists: Collection[str] = (),
        groups: Sequence[str] = (),
    ) -> Comparison:
        """The round of these libraries, ``empty`` among them, and of those groups of peers, in
        processes that have run no candidate. On a GPU the fastest of the ``finalists`` is timed
        cold, too. Raises ChildFailed."""
        order = self.order(libraries[EMPTY])
        inside = [group for group in groups if beside_kernels(group, self._device.kind)]
        for process in self._peers.values():
            process.wait()  # what they do would disturb
        with self._processes() as stack:
            if inside:
                stage = self._stage_of(inside[0], stack)
            else:
                stage = _fresh(
                    Child(runtime_only(self._device), 0, LIMITED, importing=RUNTIME), stack
                )
            stage.enter(enter_libraries, order, libraries)
            for group in inside:
                stage.enter(enter_peers, order, group)
            apart = [group for group in groups if group not in inside]
            others = self._others(apart, order, stack)
            found = compare([stage, *others], finalists, self._settle_seconds)
            if self._device.kind == "cpu":  # a delivered kernel is timed cold
                return found
            clocks = stage.clocks()
            fastest = [entry.name for entry in found.ranked(finalists)[:1]]
            cold = stage.cold(order, fastest, self._settle_seconds)
            return replace(found.with_cold(cold), clocks=clocks)

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        """The libraries as their users have them, each loaded from disk and checked by a fresh
        process: their calls, on a CPU their kernels too, in turns with those groups of peers. One
        that is wrong is dropped. Raises ChildFailed."""
        orders = {name: self.order(each.library) for name, each in delivered.items()}
        with self._processes() as stack, self._timing():
            imported = ON_A_GPU if self._device.kind == "cuda" else RUNTIME
            stages = {
                name: _fresh(Child(ENVIRONMENT, 0, LIMITED, importing=imported), stack)
                for name in delivered
            }
            for name, stage in stages.items():
                manifest = delivered[name].manifest
                stage.enter_or_drop(name, enter_delivered, orders[name], manifest, name)
            any_order = next(iter(orders.values()))
            beside = self._others(groups, any_order, stack)
            found = compare([*stages.values(), *beside], settle_seconds=self._settle_seconds)
            for name, stage in stages.items():
                if of(name, KERNEL) in found.entries:
                    found = found.with_cold(
                        stage.cold(orders[name], [of(name, KERNEL)], self._settle_seconds)
                    )
            return found

    def ready(self) -> None:
        """Wait until inputs and references are there. Raises ChildFailed."""
        result_of(self._written)

    def _others(self, groups: Sequence[str], order: RunOrder, stack: ExitStack) -> list[Stage]:
        """A process for each of these groups whose library may be here, its peers entered."""
        stages = []
        for group in groups:
            if here(group):
                stage = self._stage_of(group, stack)
                stage.enter_or_drop(f"peers ({group})", enter_peers, order, group)
                stages.append(stage)
        return stages

    def _stage_of(self, group: str, stack: ExitStack) -> Stage:
        """The process of the group that was begun before, or else a new one."""
        process = self._peers.pop(group, None)
        if process is not None:
            stack.enter_context(closing(process))
            try:
                return process.stage()
            except ChildFailed as error:
                log.warning("peers_begun_anew", group=group, reason=str(error))
        return _fresh(child_of(self._device.kind, group), stack)

    @contextmanager
    def _peers_paused(self) -> Iterator[None]:
        with ExitStack() as stack:
            for process in () if self.overlaps_builds else self._peers.values():
                stack.enter_context(process.paused())
            yield

    @contextmanager
    def _processes(self) -> Iterator[ExitStack]:
        """For processes that end with the context. The one that runs candidates ends before."""
        self._child.close()
        with ExitStack() as stack:
            yield stack

    def close(self) -> None:
        self._child.kill()
        self._thread.shutdown()
        for process in self._peers.values():
            process.close()
        self._child.close()
        self._folder.cleanup()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _fresh(child: Child, stack: ExitStack) -> Stage:
    return Stage(stack.enter_context(closing(child)))


def runtime_only(device: Device) -> dict[str, str]:
    """The environment of a process that runs kernels: TVM without its compiler, and as many
    threads as the device has."""
    if device.kind == "cpu":
        return ENVIRONMENT | threading_environment(device.limits.units)
    return ENVIRONMENT

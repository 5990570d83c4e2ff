"""Runner: measuring candidates in a child that is killed at its deadline and replaced after a
fault."""

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
from tuner.compare.stage import (
    EMPTY,
    KERNEL,
    load_libraries,
    prepare_delivered,
    prepare_libraries,
    prepare_peers,
    subject_name,
)
from tuner.device.device import Device
from tuner.errors import ChildCrashed, ChildError, ChildFailed, ChildTimeout, MachineError
from tuner.library.runtime import threading_environment
from tuner.measure.confined import ENVIRONMENT, LIMITED, candidate_confinement
from tuner.measure.trial import Measured, RunOrder, measure, warm_up, write_cases
from tuner.measure.versions import of_peers
from tuner.peers import may_be_installed, shares_kernel_process
from tuner.process.child import Child
from tuner.process.scratch import temporary_folder
from tuner.process.shortage import is_shortage
from tuner.process.stopping import wait_for

RUN_SECONDS = 30.0
"""Default limit for checking and timing one library."""
REFERENCE_SECONDS = 900.0
"""Limit for drawing the inputs and computing their references."""
ANSWER_BYTES = 1 << 20
"""Limit for an answer of a process that runs candidates. A candidate could make the process send
any number of bytes."""
FEW = 4
"""How many libraries a GPU's runner takes before it has measured the first."""
MISSING = ("ImportError: ", "ModuleNotFoundError: ")
"""How errors begin that no candidate has caused: a candidate imports nothing."""
AHEAD_MEMORY = 1 / 64
"""Peers compile during the job's search if a set of the workload's tensors takes at most this share
of the device's memory, because each peer allocates a set and the candidates have theirs."""

log = structlog.get_logger()


class Runner:
    """Checks and times the libraries of one workload on one device, one at a time.

    The inputs are drawn and their references computed once, into a folder that :meth:`close`
    removes. For a large workload this takes seconds. The first libraries are built meanwhile. After
    the inputs, a GPU is made ready, too. The first method that needs the inputs waits for both, and
    raises ChildFailed if the inputs can't be made.
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
        """Start the child, which draws the inputs, and have the peers compile.

        ``timeout`` is the limit in seconds for checking and timing one library. ``settle_seconds``
        is as for :func:`tuner.compare.comparison.compare`: if it is 0, all times are rough.

        ``peers`` are processes of groups of peers, by group. They compile meanwhile, and end with
        the runner. On a CPU they are paused while a library is measured. ``timing()`` is a context
        in which the rest of the worker's work on the host is paused: the delivered libraries are
        timed in it.
        """
        self._workload_key, self._device, self._timeout = workload_key, device, timeout
        self._settle_seconds = settle_seconds
        self._peers, self._timing = dict(peers), timing
        with ExitStack() as unless_begun:  # closes the peers if, for example, the disk is full
            for process in self._peers.values():
                unless_begun.callback(process.close)
            self._folder = tempfile.TemporaryDirectory(
                prefix="convtune-cases-", dir=temporary_folder(), ignore_cleanup_errors=True
            )
            self._child = Child(
                runtime_only(device),
                confinement=candidate_confinement(device.kind, self._folder.name),
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
        self._ready = self._thread.submit(self._warm_up) if self.overlaps_builds else self._written
        for process in self._peers.values():
            if templates.parse_key(workload_key).bytes <= AHEAD_MEMORY * device.memory_bytes:
                process.compile(workload_key, self._written, Path(self._folder.name))

    def order(self, library: Path) -> RunOrder:
        """Return the order to measure a library. This waits for the cases, and for the GPU.

        Raises ChildFailed if the cases can't be made.
        """
        wait_for(self._written)
        wait_for(self._ready)
        return RunOrder(
            self._workload_key,
            library,
            Path(self._folder.name),
            self._device.kind,
            self._device.limits.cache_bytes,
            rough=self._settle_seconds == 0,
        )

    def measure(self, library: Path) -> Measured:
        """Check and time a library. A crash or a hang of its process is a result, too.

        Raises ChildFailed if the cases can't be made.
        """
        order = self.order(library)
        try:
            with self._peers_paused():
                measured = self._child.call(measure, order, timeout=self._timeout)
        except ChildTimeout as error:
            return Measured("run_timeout", error=str(error))
        except MachineError as error:
            return Measured("machine_error", error=str(error))
        except ChildCrashed as error:
            return Measured("run_error", error=str(error))
        except ChildError as error:
            self._child.close()  # after a CUDA error the process can't use the GPU any more
            said = str(error)
            blameless = is_shortage(said) or said.startswith(MISSING)
            return Measured("machine_error" if blameless else "run_error", error=said)
        if measured.status == "wrong_answer" and self._device.kind == "cuda":
            self._child.close()  # the library may have overwritten the references on the device
        return measured

    def _warm_up(self) -> None:
        """Make the GPU ready for the first library.

        A failure is only logged: the first library's measurement will fail with the reason.
        """
        folder, limits = Path(self._folder.name), self._device.limits
        try:
            wait_for(self._written)
            self._child.call(
                warm_up,
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
        """How many libraries may be submitted before the first is measured.

        On a CPU it is one: a library is measured after the previous result is stored. On a GPU it
        is a few, so that the GPU need not wait until the next library is proposed and built.
        """
        return FEW if self.overlaps_builds else 1

    @property
    def overlaps_builds(self) -> bool:
        """Whether builds may run during measurements: on a CPU they would disturb the times."""
        return self._device.kind == "cuda"

    @property
    def peer_versions(self) -> dict[str, str] | None:
        """The versions that the peers' times depend on; None if the times are rough."""
        return of_peers(self._device) if self._settle_seconds > 0 else None

    def submit(self, library: Path) -> Future[Measured]:
        """Queue a library for :meth:`measure`, after those that were submitted before."""
        return self._thread.submit(self.measure, library)

    def compare(
        self,
        libraries: dict[str, Path],
        finalists: Collection[str] = (),
        groups: Sequence[str] = (),
    ) -> Comparison:
        """Time these libraries and groups of peers in a round, as :meth:`Measuring.compare` does.

        The round runs in processes that have run no candidate. On a GPU the fastest of the
        ``finalists`` is timed cold, too. Raises ChildFailed.
        """
        order = self.order(libraries[EMPTY])
        inside = [group for group in groups if shares_kernel_process(group, self._device.kind)]
        for process in self._peers.values():
            process.wait()  # a process that still compiles would disturb the round
        with self._processes() as stack:
            if inside:
                stage = self._stage_of(inside[0], stack)
            else:
                stage = _fresh(
                    Child(runtime_only(self._device), 0, LIMITED, importing=RUNTIME), stack
                )
            stage.prepare(load_libraries, order, libraries)
            for group in inside:
                stage.prepare(prepare_peers, order, group)
            # last: after a peer is made ready, every graph may replay more slowly (decision 006)
            stage.prepare(prepare_libraries, order)
            apart = [group for group in groups if group not in inside]
            others = self._others(apart, order, stack)
            found = compare([stage, *others], finalists, self._settle_seconds)
            if self._device.kind == "cpu":  # on a CPU, deliver() times the kernels cold
                return found
            clocks = stage.clocks()
            fastest = [entry.name for entry in found.ranked(finalists)[:1]]
            cold = stage.cold(order, fastest, self._settle_seconds)
            return replace(found.with_cold(cold), clocks=clocks)

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        """Time libraries as users call them in a round, as :meth:`Measuring.deliver` does.

        On a CPU the kernels are timed cold, too. Raises ChildFailed.
        """
        orders = {name: self.order(each.library) for name, each in delivered.items()}
        with self._processes() as stack, self._timing():
            imported = ON_A_GPU if self._device.kind == "cuda" else RUNTIME
            stages = {
                name: _fresh(Child(ENVIRONMENT, 0, LIMITED, importing=imported), stack)
                for name in delivered
            }
            for name, stage in stages.items():
                manifest = delivered[name].manifest
                stage.prepare_or_drop(name, prepare_delivered, orders[name], manifest, name)
            any_order = next(iter(orders.values()))
            beside = self._others(groups, any_order, stack)
            found = compare([*stages.values(), *beside], settle_seconds=self._settle_seconds)
            for name, stage in stages.items():
                if subject_name(name, KERNEL) in found.entries:
                    found = found.with_cold(
                        stage.cold(orders[name], [subject_name(name, KERNEL)], self._settle_seconds)
                    )
            return found

    def wait_for_cases(self) -> None:
        """Wait until the inputs and references are written. Raises ChildFailed if that fails."""
        wait_for(self._written)

    def _others(self, groups: Sequence[str], order: RunOrder, stack: ExitStack) -> list[Stage]:
        """Return a stage with prepared peers for each of these groups that may be installed."""
        stages = []
        for group in groups:
            if may_be_installed(group):
                stage = self._stage_of(group, stack)
                stage.prepare_or_drop(f"peers ({group})", prepare_peers, order, group)
                stages.append(stage)
        return stages

    def _stage_of(self, group: str, stack: ExitStack) -> Stage:
        """Return a stage in the group's process that was started ahead, or in a new process."""
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
        """Pause the processes of peers, unless they may run during measurements."""
        with ExitStack() as stack:
            for process in () if self.overlaps_builds else self._peers.values():
                stack.enter_context(process.paused())
            yield

    @contextmanager
    def _processes(self) -> Iterator[ExitStack]:
        """End the process that runs candidates. Yield a stack for others, which end with the
        context."""
        self._child.close()
        with ExitStack() as stack:
            yield stack

    def close(self) -> None:
        """End all processes, also if one is measuring, and remove the folder of the cases."""
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
    """Return a stage in that process, which ends with the stack's context."""
    return Stage(stack.enter_context(closing(child)))


def runtime_only(device: Device) -> dict[str, str]:
    """Return the environment of a process that runs kernels on that device.

    It loads TVM without its compiler and, on a CPU, uses as many threads as the device has.
    """
    if device.kind == "cpu":
        return ENVIRONMENT | threading_environment(device.limits.units)
    return ENVIRONMENT

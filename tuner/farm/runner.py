"""FarmRunner: a job's measuring on several RPC servers at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from tuner.compare.comparison import SETTLE_SECONDS, Comparison
from tuner.compare.measuring import Delivered
from tuner.compare.runner import ANSWER_BYTES, REFERENCE_SECONDS
from tuner.device.device import Device
from tuner.errors import ChildFailed, ForeignServer, NoServer, TunerError
from tuner.farm import link, wire
from tuner.measure.trial import Measured
from tuner.process.child import Child
from tuner.process.stopping import wait_for

log = structlog.get_logger()

ENVIRONMENT = {"TVM_USE_RUNTIME_LIB": "1"}
"""Environment of the processes with sessions: TVM without its compiler."""
IMPORTED = ("tvm.rpc", "tuner.farm.link")
"""Modules that these processes import when they start."""
CONNECT_SECONDS = 15.0
"""How long to wait for a free server before the tracker is asked anew."""
PAUSE_SECONDS = 1.0
UNUSABLE_PAUSE_SECONDS = 3.0
"""Pause after a server that can't be used for this job: the tracker may offer it again at once."""
PATIENCE_SECONDS = 30.0
"""The job is given back if it has had no server for this long."""
COMPARISON_SECONDS = 1800.0
TRIES = 3
"""A task fails if this many servers were lost during it, because it may be the cause."""
TRANSFER_SECONDS = 60.0
"""Time for uploads and for the server's cleaning up, in addition to the limit of a call."""
KEEPALIVE_SECONDS = 60.0
"""How often a server without work gets a sign of life. Without signs it ends its session."""


@dataclass
class _Task:
    """A call of one of the server's functions.

    ``read`` converts the answer to the result of ``future``. ``lost`` counts the servers that were
    lost during the call.
    """

    name: str
    given: dict[str, Any]
    files: dict[str, Path]
    seconds: float
    read: Callable[[dict[str, Any]], Any]
    lost: int = 0
    future: Future[Any] = field(default_factory=Future)

    def begin(self) -> bool:
        """Return whether to send the task: False if its future has been cancelled."""
        return self.lost > 0 or self.future.set_running_or_notify_cancel()

    def end(self, answer: dict[str, Any]) -> None:
        """Set the future from the server's answer. Raises ForeignServer if it can't be read."""
        try:
            value = self.read(answer)
        except ChildFailed as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


class FarmRunner:
    """Checks and times the libraries of one workload on the servers that a tracker has under a key.

    Each server has one thread and one child process here. If a server is lost, its task in flight
    goes to the next server. :class:`tuner.compare.measuring.Measuring` describes the interface.
    """

    def __init__(
        self,
        tracker: tuple[str, int],
        key: str,
        device: Device,
        servers: int,
        workload_key: str,
        *,
        seed: int,
        timeout: float,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """Start ``servers`` threads. Each waits for a server of its own with that device."""
        self._tracker, self._key, self._device = tracker, key, device
        self._open_arguments = {
            "workload_key": workload_key,
            "seed": seed,
            "timeout": timeout,
            "settle_seconds": settle_seconds,
        }
        self._timeout = timeout
        self._tasks: deque[_Task] = deque()
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._reason = ""  # why the last server that was tried could not be used
        self._sessions, self._connected, self._alone_since = 0, 0, time.monotonic()
        self._unfit: set[str] = set()  # servers that can't draw the job's inputs
        self._children = [
            Child(ENVIRONMENT, answer_bytes=ANSWER_BYTES, importing=IMPORTED)
            for _ in range(servers)
        ]
        self._threads = [
            threading.Thread(target=self._use_servers, args=(child,), name="server", daemon=True)
            for child in self._children
        ]
        for thread in self._threads:
            thread.start()

    @property
    def max_in_flight(self) -> int:
        """How many libraries may be in flight: two for each server, so that no server is idle."""
        return 2 * len(self._children)

    @property
    def overlaps_builds(self) -> bool:
        """Whether builds may run during measurements. They may: they run on another machine."""
        return True

    @property
    def peer_versions(self) -> dict[str, str] | None:
        """None: the next round may be on another server, where peers have other versions."""
        return None

    def submit(self, library: Path) -> Future[Measured]:
        """Queue a library for the next free server. Raises NoServer, and so does its future."""
        given, files = {"library": library.name}, {library.name: library}
        return self._add(_Task("measure", given, files, self._timeout, _measured))

    def compare(
        self,
        libraries: dict[str, Path],
        finalists: Collection[str] = (),
        groups: Sequence[str] = (),
    ) -> Comparison:
        """Return a round of the libraries on one server. Raises ChildFailed, NoServer."""
        names = {name: path.name for name, path in libraries.items()}
        given = {"libraries": names, "finalists": list(finalists), "groups": list(groups)}
        return self._compared("compare", given, libraries.values())

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        """Return a round of delivered libraries on one server. Raises ChildFailed, NoServer."""
        given = {
            "delivered": {
                name: {"library": each.library.name, "manifest": each.manifest}
                for name, each in delivered.items()
            },
            "groups": list(groups),
        }
        return self._compared("deliver", given, [each.library for each in delivered.values()])

    def _compared(self, name: str, given: dict[str, Any], files: Iterable[Path]) -> Comparison:
        """Upload the files to one server and have it run a round. Return the round."""
        carried = {path.name: path for path in files}
        task = _Task(name, given, carried, COMPARISON_SECONDS, _comparison)
        found: Comparison = wait_for(self._add(task))
        return found

    def close(self) -> None:
        """End all sessions and processes. What is still queued fails with NoServer."""
        with self._changed:
            self._over.set()
            self._changed.notify_all()
        for child in self._children:
            child.kill()
        for thread in self._threads:
            thread.join()
        for child in self._children:
            child.close()
        self._end(NoServer(self._tracker, self._key, "the job has ended"))

    def __enter__(self) -> FarmRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, task: _Task) -> Future[Any]:
        """Queue a task. Return its future. Raises the error for which the runner has ended."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._tasks.append(task)
            self._changed.notify()
        return task.future

    def _use_servers(self, child: Child) -> None:
        """Use one server after the other until the runner closes. Runs in a thread of its own."""
        try:
            while not self._over.is_set():
                if not self._session(child):
                    self._give_up_if_alone()
                    time.sleep(PAUSE_SECONDS)
        except Exception as error:  # for example, no process can be started
            log.exception("rpc_lane_crashed")
            self._end(error)

    def _session(self, child: Child) -> bool:
        """Connect to a server, and send it tasks until it is lost or the runner closes.

        Return False if no session could begin.
        """
        server = self._connect(child)
        if server is None:
            return False
        with self._changed:
            self._sessions += 1
        try:
            if not self._open(child, server):
                return False
            with self._changed:
                self._connected += 1
            try:
                self._serve(child)
            finally:
                with self._changed:
                    self._connected -= 1
                    self._alone_since = time.monotonic()
            return True
        finally:
            with self._changed:
                self._sessions -= 1

    def _serve(self, child: Child) -> None:
        """Send one task after the other, until the server is lost or the runner closes."""
        while not self._over.is_set():
            task = self._next()
            if task is None:
                if not self._keep_alive(child):
                    return
                continue
            if not task.begin():
                continue
            try:
                answer = child.call(
                    link.ask,
                    task.name,
                    task.given,
                    task.files,
                    timeout=task.seconds + TRANSFER_SECONDS,
                )
                task.end(answer)
            except (ChildFailed, ForeignServer) as error:
                self._requeue_or_fail(task, error)
                return
            except Exception as error:
                task.future.set_exception(error)
                raise

    def _next(self) -> _Task | None:
        """Return the next task; None if no task comes for a while, or if the runner closes."""
        with self._changed:
            self._changed.wait_for(lambda: self._tasks or self._over.is_set(), KEEPALIVE_SECONDS)
            return self._tasks.popleft() if self._tasks and not self._over.is_set() else None

    def _keep_alive(self, child: Child) -> bool:
        """Give the server a sign of life. Return False if it is lost or the runner closes."""
        if self._over.is_set():
            return False
        try:
            child.call(link.ask, "stay", {}, {}, timeout=TRANSFER_SECONDS)
        except ChildFailed as error:
            self._note_lost("stay", error)
            return False
        return True

    def _note_lost(self, doing: str, error: TunerError) -> None:
        if not self._over.is_set():
            log.warning("rpc_server_lost", key=self._key, doing=doing, reason=str(error))

    def _requeue_or_fail(self, task: _Task, error: TunerError) -> None:
        """Queue a task again after its server was lost, or fail it after :data:`TRIES` losses."""
        task.lost += 1
        self._note_lost(task.name, error)
        if task.lost >= TRIES:
            task.end(
                {"failed": f"{TRIES} RPC servers were lost while they ran it; the last: {error}"}
            )
            return
        with self._changed:
            self._tasks.appendleft(task)
            self._changed.notify()

    def _connect(self, child: Child) -> str | None:
        """Begin a session. Return the server's id; None if no server is free or suitable."""
        try:
            answer = child.call(link.connect, self._tracker, self._key, timeout=CONNECT_SECONDS)
            introduced = wire.read_introduction(answer)
            device = introduced.device
            if device.identity != self._device.identity:
                raise ForeignServer(
                    f"a server of key {self._key!r} has {device.name} ({device.driver}), others "
                    f"{self._device.name} ({self._device.driver}): give it another key, or "
                    "restart the worker if all servers have changed"
                )
        except ForeignServer as error:
            self._reason = str(error)
            log.warning("rpc_server_refused", reason=str(error))
            self._turn_away(child)
            return None
        except ChildFailed as error:
            self._note_awaited(error)
            return None
        if introduced.server in self._unfit:
            self._turn_away(child)
            return None
        return introduced.server

    def _turn_away(self, child: Child) -> None:
        child.close()  # the server is free for other workers
        self._over.wait(UNUSABLE_PAUSE_SECONDS)

    def _open(self, child: Child, server: str) -> bool:
        """Have the server draw the inputs and compute their references, which may take minutes.

        Return False if the server can't. If no server can, the job fails.
        """
        seconds = REFERENCE_SECONDS + TRANSFER_SECONDS
        try:
            answer = child.call(link.ask, "open", self._open_arguments, {}, timeout=seconds)
        except ChildFailed as error:
            self._reason = str(error)
            self._note_awaited(error)
            return False
        if "failed" not in answer:
            return True
        self._reason = answer["failed"]
        log.warning("rpc_server_unfit", key=self._key, reason=self._reason)
        with self._changed:
            self._unfit.add(server)
            nowhere = len(self._unfit) >= len(self._children)
        if nowhere:
            self._end(ChildFailed(answer["failed"]))
        child.close()  # the server is free for other workers
        return False

    def _note_awaited(self, error: ChildFailed) -> None:
        if not self._over.is_set():
            log.info("rpc_server_awaited", key=self._key, reason=str(error))

    def _give_up_if_alone(self) -> None:
        """End the runner with NoServer if it has had no server for :data:`PATIENCE_SECONDS`."""
        with self._changed:
            alone = self._sessions == 0 and not self._over.is_set()
            if not alone or time.monotonic() - self._alone_since < PATIENCE_SECONDS:
                return
        why = f"no server was free for {PATIENCE_SECONDS:g} s"
        if self._reason:
            why += f"; the last one tried could not be used: {self._reason}"
        self._end(NoServer(self._tracker, self._key, why))

    def _end(self, error: Exception) -> None:
        """Make queued and later tasks fail with this error, or with an earlier one."""
        with self._changed:
            self._failure = self._failure or error
            tasks, self._tasks = list(self._tasks), deque()
        for task in tasks:
            if task.begin():
                task.future.set_exception(self._failure)


def _answered(answer: dict[str, Any]) -> dict[str, Any]:
    if "failed" in answer:
        raise ChildFailed(answer["failed"])
    return answer


def _measured(answer: dict[str, Any]) -> Measured:
    if "failed" in answer:
        return Measured("run_error", error=answer["failed"])
    return wire.read(Measured, answer)


def _comparison(answer: dict[str, Any]) -> Comparison:
    return wire.read(Comparison, _answered(answer))

"""Processes of peers start and compile while a job searches. If something fails there, the peers
are prepared again in the round."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.acceptance.processes import started
from tests.tuner import fresh
from tests.tuner.compare import beginnings
from tests.tuner.measure import remote
from tests.tuner.measure.planted import Planted
from tests.tuner.measure.remote import gone
from tuner.build.compile import EMPTY_WORKLOAD, BuildOrder, build, program_of
from tuner.compare import peer_process
from tuner.compare.peer_process import PeerProcess, PeerProcesses
from tuner.compare.runner import Runner
from tuner.compare.stage import prepare_peers
from tuner.device.device import Device
from tuner.errors import ChildCrashed, ChildError, ChildFailed, ChildTimeout
from tuner.measure.trial import RunOrder, write_cases
from tuner.peers import DEVICE, HOST, LAYERS, PYTORCH
from tuner.process.child import ONE_THREAD
from tuner.settings import Settings

WORKLOAD = Conv1dWorkload(M=100, N=7, mode="same", kind="correlate")
SECONDS = 30.0


@pytest.fixture(scope="module")
def libraries(device: Device, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, template = tmp_path_factory.mktemp("libraries"), Planted()
    found = {}
    for name, workload in {"right": WORKLOAD, "empty": EMPTY_WORKLOAD}.items():
        found[name] = folder / f"{name}.so"
        config = template.config("right")
        order = BuildOrder(workload.key, program_of(template), config, device.target, found[name])
        built = build(order, Settings().build_cache)
        assert built.status == "ok", built.error
    return found


@pytest.fixture
def process() -> Iterator[PeerProcess]:
    with closing(PeerProcess("cpu", HOST)) as process:
        yield process


def there(folder: Path) -> Future[None]:
    """Write the test cases into the folder; return a future that is done."""
    cases: Future[None] = Future()
    write_cases(WORKLOAD.key, folder, 0)
    cases.set_result(None)
    return cases


def within(seconds: float, reached: Any) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_peer_process_that_compiled_ahead_also_runs_in_the_round(
    process: PeerProcess, tmp_path: Path
) -> None:
    """The process that compiles peers ahead also prepares and times them in the round."""
    process.compile(WORKLOAD.key, there(tmp_path), tmp_path)
    stage = process.stage()
    pid = process._child.pid
    order = RunOrder(WORKLOAD.key, tmp_path / "none.so", tmp_path, "cpu", 2**20)
    stage.prepare(prepare_peers, order, HOST)
    assert "numpy.correlate" in stage.subjects
    assert all(sample.seconds > 0 for sample in stage.sample(["numpy.correlate"]))
    assert process._child.pid == pid


def test_peer_process_waits_for_the_cases_and_stands_still_while_paused(
    process: PeerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "compile_peers", beginnings.ticking)
    ticks = tmp_path / "ticks"
    cases: Future[None] = Future()
    process.compile(WORKLOAD.key, cases, tmp_path)
    assert not ticks.exists()
    cases.set_result(None)
    within(SECONDS, lambda: ticks.exists() and ticks.stat().st_size)
    with process.paused():
        time.sleep(0.05)  # a line that it was writing is complete
        before = ticks.stat().st_size
        time.sleep(0.2)
        assert ticks.stat().st_size == before
    within(SECONDS, lambda: ticks.stat().st_size > before)
    (tmp_path / "enough").touch()
    process.stage()


def test_pause_does_not_count_against_the_compile_limit(
    process: PeerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "compile_peers", beginnings.ticking)
    process.wait()
    monkeypatch.setattr(peer_process, "BEGIN_SECONDS", 3.0)
    process.compile(WORKLOAD.key, there(tmp_path), tmp_path)
    within(SECONDS, (tmp_path / "ticks").exists)
    for _ in range(10):
        with process.paused():
            time.sleep(0.4)
    (tmp_path / "enough").touch()
    process.stage()


@pytest.mark.parametrize(
    ("beginning", "error"),
    [
        (beginnings.crash, ChildCrashed),
        (beginnings.fail, ChildError),
        (beginnings.hang, ChildTimeout),
    ],
)
def test_peers_are_prepared_anew_in_the_round_if_compiling_ahead_fails(
    device: Device,
    libraries: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    beginning: Any,
    error: type[ChildFailed],
) -> None:
    monkeypatch.setattr(peer_process, "compile_peers", beginning)
    process = PeerProcess("cpu", HOST)
    process.wait()
    monkeypatch.setattr(peer_process, "BEGIN_SECONDS", 1.0)
    with Runner(WORKLOAD.key, device, settle_seconds=0, peers={HOST: process}) as runner:
        with pytest.raises(error):
            process.stage()
        assert runner.measure(libraries["right"]).status == "ok"
        found = runner.compare(libraries, groups=[HOST])
    assert {"right", "empty", "numpy.correlate"} <= found.entries.keys()
    assert found.dropped.keys() & {"peers (host)"} == set()


def test_peers_pause_while_a_library_is_measured_and_end_with_the_runner(
    device: Device, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "compile_peers", beginnings.ticking)
    sizes: list[tuple[int, int]] = []
    process = PeerProcess("cpu", HOST)
    with Runner(WORKLOAD.key, device, settle_seconds=0, peers={HOST: process}) as runner:
        ticks = Path(runner._folder.name) / "ticks"
        within(SECONDS, lambda: ticks.exists() and ticks.stat().st_size)
        call = runner._child.call

        def watched(*arguments: Any, **options: Any) -> Any:
            time.sleep(0.05)
            before = ticks.stat().st_size
            found = call(*arguments, **options)
            sizes.append((before, ticks.stat().st_size))
            return found

        monkeypatch.setattr(runner._child, "call", watched)
        assert runner.measure(libraries["right"]).status == "ok"
        ((before, after),) = sizes
        assert before == after
        within(SECONDS, lambda: ticks.stat().st_size > after)
        pid = int(ticks.read_text().split()[0])
        start = time.monotonic()
    assert time.monotonic() - start < 5
    assert gone(pid)


@pytest.mark.parametrize(("memory", "compiled"), [(64, True), (63, False)])
def test_peers_compile_during_the_search_only_if_memory_suffices(
    device: Device, memory: int, compiled: bool
) -> None:
    class Recorded:
        compiled = False

        def compile(self, *_: Any) -> None:
            self.compiled = True

        def close(self) -> None: ...

    facts = vars(device) | {"memory_bytes": memory * WORKLOAD.bytes}
    recorded: Any = Recorded()
    with Runner(WORKLOAD.key, Device(**facts), peers={HOST: recorded}):
        assert recorded.compiled == compiled


def test_next_job_takes_the_spare_process() -> None:
    processes = PeerProcesses("cpu")
    with closing(processes):
        processes.refill()
        assert processes._spare == {}  # only groups that were taken before have spare processes
        first = processes.take([HOST])[HOST]
        processes.refill()
        processes.refill()
        ((spare,),) = processes._spare.values()
        spare.wait()
        pid = spare._child.pid
        first.close()
        second = processes.take([HOST])[HOST]
        assert second._child.pid == pid is not None
        assert second._child.call(remote.pid, timeout=SECONDS) == pid
        second.close()
        assert gone(pid)


def test_gpu_worker_starts_two_spare_processes_at_once_and_can_pause_them() -> None:
    with closing(PeerProcesses("cuda")) as processes:
        first = processes.take([HOST])[HOST]
        ((second, third),) = processes._spare.values()
        for spare in (second, third):
            spare.wait()
            with processes.paused(), pytest.raises(ChildTimeout):
                spare._child.call(remote.pid, timeout=0.5)
        processes.refill()
        assert processes.take([HOST])[HOST] is second
        ((*_, fourth),) = processes._spare.values()
        assert [*processes._spare[HOST]] == [third, fourth]
        assert len({first, second, third, fourth}) == 4
        first.close()
        second.close()


def test_spare_processes_end_if_their_group_is_not_taken_or_on_close() -> None:
    processes = PeerProcesses("cpu")
    processes.take([HOST])[HOST].close()
    processes.refill()
    ((spare,),) = processes._spare.values()
    spare.wait()
    assert processes.take([]) == {}
    assert spare._child.pid is None
    processes.take([HOST])[HOST].close()
    processes.refill()
    ((spare,),) = processes._spare.values()
    processes.close()
    assert spare._child.pid is None


LEFT = """
from tests.acceptance.processes import started
from tests.tuner import fresh
from tests.tuner.compare import beginnings
from tuner.compare import peer_process
from tuner.peers import HOST
peer_process.import_libraries = beginnings.for_ever
process = peer_process.PeerProcess("cpu", HOST)
while not (pids := started()):
    pass
print(pids.pop().pid)
"""


def test_program_exits_without_waiting_for_its_peer_processes() -> None:
    """A program with a client that was never closed exits without waiting for the process of peers,
    which ends as well."""
    command = [sys.executable, "-c", LEFT]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    within(SECONDS, lambda: gone(int(done.stdout)))


def test_peer_processes_end_if_the_runner_cannot_start(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a runner cannot start, it ends the processes of peers that it was given."""
    before = started()
    with closing(PeerProcess("cpu", HOST)) as process:
        process.wait()
        assert started() - before
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        with pytest.raises(FileNotFoundError):
            Runner(WORKLOAD.key, device, peers={HOST: process})
        assert started() <= before


def test_group_that_is_not_installed_has_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_process, "may_be_installed", lambda group: group != PYTORCH)
    with closing(PeerProcesses("cpu")) as processes:
        taken = processes.take([HOST, PYTORCH])
        for process in taken.values():
            process.close()
    assert taken.keys() == {HOST}


def test_process_of_gpu_peers_imports_tvms_runtime_and_that_of_host_peers_does_not() -> None:
    beside, apart = (peer_process.child_of("cuda", group) for group in (DEVICE, HOST))
    assert "tvm" in beside._server._modules
    assert beside._environment["TVM_USE_RUNTIME_LIB"] == "1"
    assert apart._server._modules == ("tuner.process.child_main", "scipy.signal")
    assert apart._environment.get("TVM_USE_RUNTIME_LIB") == os.environ.get("TVM_USE_RUNTIME_LIB")


THREADS = """
from contextlib import closing
from tests.tuner.compare.beginnings import threads_of_a_product
from tuner.compare.peer_process import child_of
with closing(child_of("cpu", "host")) as child:
    print(child.call(threads_of_a_product, timeout=20) - threads_of_a_product())
"""


def test_host_peers_have_as_many_numpy_threads_as_a_users_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    assert fresh.run(THREADS) == "0"


@pytest.mark.torch
def test_pytorch_process_has_pytorchs_default_threads_and_no_tvm() -> None:
    threads = fresh.run("import torch; print(torch.get_num_threads())")
    with closing(peer_process.child_of("cpu", LAYERS)) as child:
        assert child.call(remote.imported, "torch", timeout=SECONDS)
        assert not child.call(remote.imported, "tvm", timeout=SECONDS)
        assert child.call(beginnings.pytorchs_threads, timeout=SECONDS) == int(threads)

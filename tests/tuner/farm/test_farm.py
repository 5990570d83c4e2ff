"""Measuring on RPC servers, with a real tracker, real servers and real libraries."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from templates.conv1d.workload import Conv1dWorkload
from tests.ports import free_port
from tests.tuner.farm.farmed import (
    Process,
    Server,
    Tracker,
    connect_and_reset,
    until,
)
from tests.tuner.farm.sleepy import DRAWN, IDLE_SECONDS
from tests.tuner.measure.planted import Planted
from tuner.build.compile import EMPTY, EMPTY_WORKLOAD, BuildOrder, build, program_of
from tuner.compare.measuring import Delivered
from tuner.compare.stage import EMPTY as EMPTY_NAME
from tuner.device import cpu_facts
from tuner.errors import ChildFailed, NoServer
from tuner.farm import link
from tuner.farm import runner as lanes
from tuner.farm.farm import Farm
from tuner.farm.runner import FarmRunner
from tuner.job import artifact
from tuner.process.child import Child
from tuner.settings import Settings

WORKLOAD = Conv1dWorkload(M=100, N=7, mode="same", kind="correlate")
LIMIT = 6.0


@pytest.fixture(scope="module")
def libraries(folder: Path) -> dict[str, Path]:
    """Build a library of each planted behaviour, and the empty program; return paths by name."""
    target, template = cpu_facts.device().target, Planted()
    found = {}
    for behaviour in (*template.behaviours, EMPTY_NAME):
        library = folder / f"{behaviour}.so"
        order = BuildOrder(
            WORKLOAD.key, program_of(template), template.config(behaviour), target, library
        )
        if behaviour == EMPTY_NAME:
            order = BuildOrder(EMPTY_WORKLOAD.key, EMPTY, None, target, library)
        built = build(order, Settings().build_cache)
        assert built.status == "ok", built.error
        found[behaviour] = library
    return found


def described(library: Path) -> dict[str, Any]:
    """Return a manifest of the library's bytes, not yet signed."""
    device, template = cpu_facts.device(), Planted()
    return artifact.manifest(
        WORKLOAD,
        device,
        config=template.config("right"),
        template_version=template.version,
        threads=1,
        versions={},
        timing={},
        max_error=0.0,
        named=artifact.files("cpu", library.read_bytes(), "", {}),
    )


@pytest.fixture(scope="module")
def farm(tracker: Tracker, servers: list[Server]) -> Iterator[Farm]:
    farm = Farm(tracker.address, "pair")
    yield farm
    farm.close()


@pytest.fixture(scope="class")
def runner(farm: Farm) -> Iterator[FarmRunner]:
    with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
        yield runner


def test_farm_has_the_device_of_its_servers(farm: Farm) -> None:
    """The farm's device is the one that its servers report."""
    here = cpu_facts.device()
    assert (farm.device.name, farm.device.arch, farm.device.target) == (
        here.name,
        here.arch,
        here.target,
    )


class TestOneRunner:
    def test_each_library_gets_its_status_and_a_crash_costs_one_trial(
        self, runner: FarmRunner, libraries: dict[str, Path]
    ) -> None:
        wanted = ["right", "crash", "wrong", "hang", "partial", "right", "right"]
        futures = [runner.submit(libraries[each]) for each in wanted]
        found = [future.result(60) for future in futures]
        assert [each.status for each in found] == [
            *("ok", "run_error", "wrong_answer", "run_timeout", "wrong_answer", "ok", "ok")
        ]
        assert "signal SIGABRT" in str(found[1].error)
        assert found[0].timing["warm"]["median_us"] > 0
        assert found[0].max_error is not None and found[0].max_error <= WORKLOAD.max_error

    def test_two_servers_measure_side_by_side(
        self, runner: FarmRunner, libraries: dict[str, Path]
    ) -> None:
        assert runner.max_in_flight == 4
        for future in [runner.submit(libraries["right"]) for _ in range(4)]:
            future.result(60)
        until(lambda: runner._connected == 2)
        hanging = [runner.submit(libraries["hang"]) for _ in range(2)]
        until(lambda: all(future.running() for future in hanging), LIMIT)
        assert {future.result(60).status for future in hanging} == {"run_timeout"}

    def test_round_and_delivery_run_on_the_server(
        self, runner: FarmRunner, libraries: dict[str, Path]
    ) -> None:
        chosen = {name: libraries[name] for name in ("right", "wrong", EMPTY_NAME)}
        found = runner.compare(chosen)
        assert found.entries.keys() == {"right", EMPTY_NAME}
        assert found.empty_us > 0
        assert found.dropped["wrong"].startswith("error")
        both = {name: Delivered(path, described(path)) for name, path in libraries.items()}
        both = {name: both[name] for name in ("right", "wrong")}
        delivered = runner.deliver(both, ["host"])
        assert delivered.entries.keys() >= {"right's kernel", "right's call", "numpy.correlate"}
        largest = delivered.entries["right's call"].max_error
        assert largest is not None and 0 < largest <= WORKLOAD.max_error
        assert "WrongAnswer" in delivered.dropped["wrong"]
        with pytest.raises(ChildFailed, match="signal SIGABRT"):
            runner.compare(chosen | {"crash": libraries["crash"]})

    def test_cancelled_libraries_are_not_measured(
        self, runner: FarmRunner, libraries: dict[str, Path]
    ) -> None:
        first = [runner.submit(libraries["right"]) for _ in range(2)]
        dropped = [runner.submit(libraries["hang"]) for _ in range(8)]
        assert sum(future.cancel() for future in dropped) >= 6
        start = time.monotonic()
        assert runner.submit(libraries["right"]).result(60).status == "ok"
        assert time.monotonic() - start < 8 * LIMIT
        assert all(future.result(60).status == "ok" for future in first)


def test_ended_session_leaves_no_process_and_no_folder(
    farm: Farm, servers: list[Server], libraries: dict[str, Path], folder: Path
) -> None:
    with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
        runner.submit(libraries["right"]).result(60)
        assert any(server.sessions() for server in servers)
    until(lambda: not any(server.sessions() for server in servers))
    until(lambda: not any(path.is_dir() for path in folder.iterdir()))
    farm.await_free()


def test_libraries_in_flight_fail_when_the_runner_closes(
    farm: Farm, libraries: dict[str, Path]
) -> None:
    with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
        runner.submit(libraries["right"]).result(60)
        hanging = [runner.submit(libraries["hang"]) for _ in range(4)]
        until(lambda: any(future.running() for future in hanging))
    for future in hanging:
        with pytest.raises(NoServer, match="the job has ended"):
            future.result(0)


def test_waiting_library_fails_if_no_session_process_can_be_started(
    farm: Farm, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """If the worker cannot start a process for a session, waiting libraries get the error."""
    farm.await_free()
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", str(folder / "absent"))
        # Other modules need another fork server; the running one would not need the executable.
        patched.setattr(lanes, "IMPORTED", (*lanes.IMPORTED, "colorsys"))
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner, pytest.raises(FileNotFoundError):
            runner.submit(libraries["right"]).result(60)


def test_reset_connection_ends_only_its_own_session(tmp_path: Path, tracker: Tracker) -> None:
    """A worker that dies with an unread answer resets its connection. The server goes on."""
    server = Server(tmp_path, "server", tracker, "reset").ready()
    child = Child(lanes.ENVIRONMENT)
    try:
        with pytest.raises(ChildFailed):
            child.call(connect_and_reset, tracker.address, "reset", timeout=60)
        said = child.call(link.connect, tracker.address, "reset", timeout=60)
        assert said["device"]["kind"] == "cpu"
        child.close()
        until(lambda: not server.sessions())
        until(lambda: not any(path.is_dir() for path in tmp_path.iterdir()))
        assert not server.said("Traceback")
    finally:
        child.close()
        server.stop()


def test_stopped_server_ends_its_sessions(
    folder: Path, tracker: Tracker, libraries: dict[str, Path]
) -> None:
    server = Server(folder, "stopped", tracker, "stopped").ready()
    farm = Farm(tracker.address, "stopped")
    try:
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            runner.submit(libraries["right"]).result(60)
            [session] = server.sessions()
            behind = [session, *session.children(recursive=True)]
            assert len(behind) >= 2
            server.stop()
            until(lambda: not any(each.is_running() for each in behind))
    finally:
        farm.close()


def test_runner_waits_for_a_server_that_draws_inputs_and_keeps_its_session(
    folder: Path, tracker: Tracker, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner waits longer for a server that draws inputs than for one that is not free, even if
    another worker has the only other server. Later, it keeps the idle session alive beyond
    IDLE_SECONDS."""
    monkeypatch.setattr(lanes, "CONNECT_SECONDS", 6.0)
    monkeypatch.setattr(lanes, "KEEPALIVE_SECONDS", 0.5)
    drawn = folder / "drawn"
    monkeypatch.setenv(DRAWN, str(drawn))
    theirs = Server(folder, "theirs", tracker, "sleepy").ready()
    with closing(Child(lanes.ENVIRONMENT)) as another_worker, ExitStack() as stack:
        stack.callback(theirs.stop)
        another_worker.call(link.connect, tracker.address, "sleepy", timeout=20)
        ours = Server(folder, "ours", tracker, "sleepy", "tests.tuner.farm.sleepy").ready()
        stack.callback(ours.stop)
        with closing(Farm(tracker.address, "sleepy")) as farm:
            farm.await_free()
            with capture_logs() as log, farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
                assert runner.max_in_flight == 4
                until(lambda: runner._sessions == 1)
                monkeypatch.setattr(lanes, "PATIENCE_SECONDS", 0.1)
                first = runner.submit(libraries["right"])
                until(lambda: "rpc_server_awaited" in [line["event"] for line in log])
                drawn.touch()
                assert first.result(60).status == "ok"
                before = ours.sessions()
                time.sleep(1.5 * IDLE_SECONDS)
                assert ours.sessions() == before
                assert runner.submit(libraries["right"]).result(60).status == "ok"


def test_another_server_takes_over_from_one_that_is_lost(
    folder: Path, tracker: Tracker, libraries: dict[str, Path]
) -> None:
    victim, survivor = (Server(folder, f"loss-{n}", tracker, "loss").ready() for n in range(2))
    farm = Farm(tracker.address, "loss")
    try:
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            until(lambda: runner._connected == 2)
            hanging = [runner.submit(libraries["hang"]) for _ in range(2)]
            after = runner.submit(libraries["right"])
            time.sleep(0.5)
            victim.kill()
            assert [future.result(60).status for future in hanging] == ["run_timeout"] * 2
            assert after.result(60).status == "ok"
    finally:
        farm.close()
        survivor.stop()


def test_waiting_library_fails_if_no_server_is_left(
    folder: Path, tracker: Tracker, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_SECONDS", 1.0)
    only = Server(folder, "only", tracker, "only").ready()
    farm = Farm(tracker.address, "only")
    try:
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            assert runner.submit(libraries["right"]).result(60).status == "ok"
            only.kill()
            monkeypatch.setattr(lanes, "CONNECT_SECONDS", 2.0)
            with pytest.raises(
                NoServer, match=r"key 'only'.*no server was free for 1 s.*rpc-server"
            ):
                runner.submit(libraries["right"]).result(60)
            with pytest.raises(NoServer):
                runner.submit(libraries["right"])
        until(lambda: _refused(farm))
    finally:
        farm.close()


def _refused(farm: Farm) -> bool:
    try:
        farm.await_free(0.0)
    except NoServer as error:
        return "none of its 0 servers was free" in str(error)
    return False


def test_a_server_of_another_device_is_left_out(
    folder: Path, tracker: Tracker, libraries: dict[str, Path]
) -> None:
    ours = Server(folder, "ours", tracker, "mixed").ready()
    farm = Farm(tracker.address, "mixed")
    other = Server(folder, "other", tracker, "mixed", "tests.tuner.farm.other_device").ready()
    try:
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            futures = [runner.submit(libraries["right"]) for _ in range(6)]
            assert {future.result(60).status for future in futures} == {"ok"}
            time.sleep(1.0)
            assert runner._connected == 1
    finally:
        farm.close()
        ours.stop()
        other.stop()


def test_a_server_that_can_not_draw_the_inputs_is_left_out(
    folder: Path, tracker: Tracker, libraries: dict[str, Path]
) -> None:
    """If no server can draw the inputs, the job fails. Otherwise the job waits for a server that
    can. Meanwhile it meets the server that cannot again and again, but counts it only once."""
    sizes = (tracker.address, "sizes")
    small = Server(folder, "small", tracker, "sizes", "tests.tuner.farm.small").ready()
    with closing(Child(lanes.ENVIRONMENT)) as another_worker, ExitStack() as stack:
        stack.callback(small.stop)
        farm = stack.enter_context(closing(Farm(tracker.address, "sizes")))
        farm.await_free()
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            with pytest.raises(ChildFailed, match="memory"):
                runner.submit(libraries["right"]).result(60)
            with pytest.raises(ChildFailed, match="memory"):
                runner.submit(libraries["right"])
        large = Server(folder, "large", tracker, "sizes").ready()
        stack.callback(large.stop)
        until(lambda: farm._servers().free == 2)
        until(lambda: another_worker.call(link.connect, *sizes, timeout=20) and large.sessions())
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            until(lambda: runner._unfit)
            future = runner.submit(libraries["right"])
            time.sleep(2 * lanes.UNUSABLE_PAUSE_SECONDS)
            assert len(runner._unfit) == 1 and not future.done()
            another_worker.close()
            assert future.result(60).status == "ok"


def test_library_fails_if_its_only_server_answers_nonsense(
    folder: Path, tracker: Tracker, libraries: dict[str, Path]
) -> None:
    """If there is no other server, the library that was sent to it fails with the reason."""
    babbling = Server(folder, "babbling", tracker, "nonsense", "tests.tuner.farm.babbling").ready()
    with ExitStack() as stack:
        stack.callback(babbling.stop)
        farm = stack.enter_context(closing(Farm(tracker.address, "nonsense")))
        farm.await_free()
        with farm.runner(WORKLOAD.key, 3, LIMIT) as runner:
            measured = runner.submit(libraries["right"]).result(60)
    assert measured.status == "run_error"
    assert "the RPC server's answer is not as agreed (timing: " in (measured.error or "")


def test_tvms_own_rpc_server_is_refused_with_the_reason(folder: Path, tracker: Tracker) -> None:
    host, port = tracker.address
    stock = Process(
        folder,
        "stock",
        *("tvm.exec.rpc_server", "--host", "127.0.0.1"),
        *("--tracker", f"{host}:{port}", "--key", "stock"),
    )
    try:
        until(lambda: "bind to" in stock.log.read_text())
        with pytest.raises(NoServer, match="TVM's own, which measures by another protocol"):
            Farm(tracker.address, "stock")
    finally:
        stock.kill()


def test_missing_tracker_is_reported_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.farm.farm.ASK_SECONDS", 3.0)
    port = free_port()
    told = rf"127.0.0.1:{port} .*\(the tracker did not answer.*--tracker 127.0.0.1:{port}"
    with pytest.raises(NoServer, match=told):
        Farm(("127.0.0.1", port), "any")

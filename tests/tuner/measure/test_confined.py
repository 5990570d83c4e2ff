"""What the processes that measure and build candidates may do, on this machine and with a GPU
driver that does not work if confined."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.measure import remote, telling
from tests.tuner.measure.greedy import GreedyBuild
from tests.tuner.process.test_confine import calls
from tuner.build.builder import LEAST_MEMORY_BYTES, Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.compare import runner as room
from tuner.compare.runner import Runner
from tuner.compare.stage import EMPTY
from tuner.device.device import Device
from tuner.measure import confined
from tuner.process.confine import FILE_BYTES

WORKLOAD = Conv1dWorkload(M=100, N=7)
LONG = 60.0


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    with Builder(workers=1) as builder:
        yield builder


@pytest.fixture
def nothing_tried() -> Iterator[None]:
    """Forget whether the driver works confined, before and after the test."""
    confined._works_confined.cache_clear()
    yield
    confined._works_confined.cache_clear()


def test_candidates_are_confined_in_memory_and_to_their_folder(tmp_path: Path) -> None:
    found = confined.candidate_confinement("cpu", str(tmp_path))
    total = psutil.virtual_memory().total
    assert (found.folder, found.devices) == (str(tmp_path), ())
    assert found.memory_bytes is not None and 0 < found.memory_bytes < total


@calls
def test_driver_that_starts_processes_has_only_limits_and_one_log_entry(
    monkeypatch: pytest.MonkeyPatch, nothing_tried: None, tmp_path: Path
) -> None:
    monkeypatch.setattr(confined, "probe_driver", remote.fork_in)
    with capture_logs() as logs:
        found = [confined.candidate_confinement("cuda", str(tmp_path)) for _ in range(2)]
    assert found == [confined.LIMITED] * 2
    (said,) = logs
    assert (said["event"], said["log_level"]) == ("candidates_not_confined", "warning")
    assert "PermissionError" in said["reason"]


@pytest.mark.parametrize(
    ("probe", "answers"), [(remote.write_in, 1), (remote.fail_in, 0)], ids=["fine", "never"]
)
def test_candidates_are_confined_if_the_driver_works_or_fails_otherwise(
    monkeypatch: pytest.MonkeyPatch,
    nothing_tried: None,
    tmp_path: Path,
    probe: Callable[[Path], None],
    answers: int,
) -> None:
    """A driver that works confined is probed once. If a driver fails for another reason, candidates
    are confined too, but the driver is probed again the next time."""
    monkeypatch.setattr(confined, "probe_driver", probe)
    with capture_logs() as logs:
        found = confined.candidate_confinement("cuda", str(tmp_path))
    assert logs == []
    assert found.folder == str(tmp_path)
    assert confined._works_confined.cache_info().currsize == answers


def test_process_of_a_round_has_limits_and_no_database_url(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", "postgresql://someone:secret@host/name")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setattr(room, "load_libraries", telling.load_and_tell)
    with Runner(WORKLOAD.key, device) as runner:
        runner.compare({EMPTY: Path("none.so")})
    told = json.loads((tmp_path / "told").read_text())
    assert told["RLIMIT_FSIZE"] == [FILE_BYTES, FILE_BYTES]
    assert told["RLIMIT_CORE"] == [0, 0]
    assert told["TUNER_DATABASE_URL"] is None
    assert told["program"] == 0


def test_builders_have_limits(builder: Builder) -> None:
    limits = builder.call(remote.limits, timeout=LONG)
    most = max(LEAST_MEMORY_BYTES, psutil.virtual_memory().total // 2)
    assert 0 < limits["RLIMIT_DATA"][1] <= most
    assert limits["RLIMIT_FSIZE"] == (FILE_BYTES, FILE_BYTES)
    assert limits["RLIMIT_CORE"] == (0, 0)


@pytest.mark.parametrize(
    ("behaviour", "says"), [("python", "MemoryError"), ("native", "signal SIGABRT")]
)
def test_build_that_exceeds_its_memory_costs_one_trial(
    builder: Builder, device: Device, tmp_path: Path, behaviour: str, says: str
) -> None:
    template = GreedyBuild()
    built = {}
    for each in (behaviour, "right"):
        config, library = template.config(each), tmp_path / f"{each}.so"
        order = BuildOrder(WORKLOAD.key, program_of(template), config, device.target, library)
        built[each] = builder.submit(order).result()
    assert built[behaviour].status == "build_error"
    assert says in (built[behaviour].error or "")
    assert (built["right"].status, built["right"].error) == ("ok", None)

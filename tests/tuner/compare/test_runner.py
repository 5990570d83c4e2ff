"""The runner's results for libraries that are right, are wrong, crash, or never return."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.measure import remote
from tests.tuner.measure.planted import Planted
from tests.tuner.measure.remote import gone
from tuner.build.compile import BuildOrder, build, program_of
from tuner.compare import runner as room
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.errors import ChildError
from tuner.measure.cases import CASES
from tuner.measure.clock import MORE
from tuner.measure.trial import ROUGH_SAMPLES, SAMPLES
from tuner.process.child import Child
from tuner.settings import Settings

WORKLOAD = Conv1dWorkload(M=100, N=7, mode="same", kind="correlate")
FILES = 3 * len(CASES)
LIMIT = 2.0


@pytest.fixture(scope="module")
def libraries(device: Device, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build a library of each planted behaviour; return their paths by behaviour."""
    folder, template = tmp_path_factory.mktemp("libraries"), Planted()
    found = {}
    for behaviour in template.behaviours:
        library = folder / f"{behaviour}.so"
        config = template.config(behaviour)
        built = build(
            BuildOrder(WORKLOAD.key, program_of(template), config, device.target, library),
            Settings().build_cache,
        )
        assert built.status == "ok", built.error
        found[behaviour] = library
    return found


@pytest.fixture(scope="module")
def runner(device: Device) -> Iterator[Runner]:
    with Runner(WORKLOAD.key, device) as runner:
        runner.wait_for_cases()
        yield runner


def test_a_right_library_is_checked_and_timed(runner: Runner, libraries: dict[str, Path]) -> None:
    measured = runner.measure(libraries["right"])
    assert (measured.status, measured.error) == ("ok", None)
    assert measured.max_error is not None and 0 < measured.max_error <= WORKLOAD.max_error
    warm = measured.timing["warm"]
    assert 0 < warm["p10_us"] <= warm["median_us"] <= warm["p90_us"]
    assert warm["samples"] >= 2 and warm["calls_per_sample"] >= 1
    assert sorted(measured.seconds) == ["check", "run"]


def test_trial_has_few_samples_if_settle_seconds_is_zero(
    device: Device, libraries: dict[str, Path]
) -> None:
    with Runner(WORKLOAD.key, device, settle_seconds=0) as rough:
        warm = rough.measure(libraries["right"]).timing["warm"]
    assert ROUGH_SAMPLES <= warm["samples"] <= MORE * ROUGH_SAMPLES < SAMPLES


@pytest.mark.parametrize(
    ("behaviour", "status", "says"),
    [
        ("wrong", "wrong_answer", "on normal input, allowed 1e-05"),
        ("partial", "wrong_answer", "error nan on normal input"),
        ("crash", "run_error", "signal SIGABRT"),
        ("hang", "run_timeout", "killed after 2 s"),
    ],
)
def test_failing_library_gets_a_status_and_the_next_is_measured(
    runner: Runner, libraries: dict[str, Path], behaviour: str, status: str, says: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if behaviour == "hang":
            patch.setattr(runner, "_timeout", LIMIT)
        measured = runner.measure(libraries[behaviour])
    assert (measured.status, measured.timing) == (status, {})
    assert measured.error is not None and says in measured.error
    assert runner.measure(libraries["right"]).status == "ok"


def test_wrong_answer_reports_the_size_of_its_error(
    runner: Runner, libraries: dict[str, Path]
) -> None:
    error = runner.measure(libraries["wrong"]).error
    assert error is not None and float(error.split()[1]) > 1e-2


def test_library_that_cannot_be_loaded_is_a_run_error_without_traceback(
    runner: Runner, tmp_path: Path
) -> None:
    measured = runner.measure(tmp_path / "absent.so")
    assert measured.status == "run_error"
    assert measured.error is not None and "absent.so" in measured.error
    assert "Traceback" not in measured.error


@pytest.mark.parametrize(
    ("find_none", "error"),
    [
        (remote.find_no_device_memory, "RuntimeError: CUDA: CUDA_ERROR_OUT_OF_MEMORY"),
        (remote.find_no_descriptor, "OSError: [Errno 24] Too many open files"),
        (remote.find_no_module, "ModuleNotFoundError: No module named 'cuda_that_is_gone'"),
    ],
)
def test_missing_resource_or_package_is_a_machine_error(
    runner: Runner,
    libraries: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    find_none: Callable[[Any], None],
    error: str,
) -> None:
    """Other programs may hold the GPU's memory, file descriptors may have run out, and a package
    may have been removed."""
    monkeypatch.setattr(room, "measure", find_none)
    measured = runner.measure(libraries["right"])
    assert (measured.status, measured.error) == ("machine_error", error)


def test_library_of_another_shape_is_a_run_error(
    device: Device, libraries: dict[str, Path]
) -> None:
    with Runner(WORKLOAD.model_copy(update={"M": 99}).key, device) as other:
        measured = other.measure(libraries["right"])
    assert measured.status == "run_error"
    assert measured.error is not None and "shape" in measured.error


def test_closing_a_runner_removes_its_inputs(device: Device, libraries: dict[str, Path]) -> None:
    runner = Runner(WORKLOAD.key, device)
    folder = runner.order(libraries["right"]).cases
    assert len(list(folder.iterdir())) == FILES
    runner.close()
    assert not folder.exists()


def test_runner_raises_if_inputs_cannot_be_drawn_and_leaves_nothing(device: Device) -> None:
    with Runner(WORKLOAD.model_copy(update={"M": 0}).key, device) as runner:
        folder = Path(runner._folder.name)
        for first_use in (runner.order, runner.measure):
            with pytest.raises(ChildError, match="ValidationError"):
                first_use(Path("none.so"))
    assert not folder.exists()
    assert runner._child.pid is None


def test_runner_process_has_tvms_runtime_only_and_the_devices_threads(device: Device) -> None:
    one = replace(device, limits=replace(device.limits, units=1))
    child = Child(room.runtime_only(one))
    told = [
        child.call(remote.variable, name, timeout=30)
        for name in ("TVM_USE_RUNTIME_LIB", "TVM_NUM_THREADS")
    ]
    child.close()
    assert told == ["1", "1"]


def test_inputs_are_drawn_in_the_background_by_the_measuring_process(
    device: Device, libraries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that draws the inputs is the one that measures later."""
    go = tmp_path / "go"
    monkeypatch.setenv("GO", str(go))
    monkeypatch.setattr(room, "write_cases", remote.write_cases_later)
    with Runner(WORKLOAD.key, device) as runner:
        assert not runner._written.done()
        go.touch()
        assert len(list(runner.order(libraries["right"]).cases.iterdir())) == FILES
        pid = runner._child.pid
        assert pid is not None
        assert runner.measure(libraries["right"]).status == "ok"
        assert runner._child.pid == pid


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runners behave as on a GPU, which is made ready before the first library comes."""
    monkeypatch.setattr(Runner, "overlaps_builds", True)


def test_tensors_are_on_the_gpu_before_the_first_library(
    device: Device, as_on_a_gpu: None, libraries: dict[str, Path]
) -> None:
    with Runner(WORKLOAD.key, device) as runner:
        wait([runner._thread.submit(runner.wait_for_cases)])
        pid = runner._child.pid
        assert runner._child.call(remote.tensors, timeout=LIMIT) == 1
        assert runner.measure(libraries["right"]).status == "ok"
        assert runner._child.pid == pid is not None


def test_failed_gpu_warm_up_does_not_fail_the_first_trial(
    device: Device,
    as_on_a_gpu: None,
    libraries: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "warm_up", remote.get_no_device)
    with Runner(WORKLOAD.key, device) as runner:
        assert runner.submit(libraries["right"]).result().status == "ok"


def test_measuring_waits_for_the_gpu_warm_up(
    device: Device,
    as_on_a_gpu: None,
    libraries: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``measure`` waits for the preparation of the GPU even if it is called from another thread, as
    by a farm's server or a ladder."""
    monkeypatch.setattr(room, "warm_up", remote.take_a_while)
    with Runner(WORKLOAD.key, device) as runner:
        measured = runner.measure(libraries["right"])
        assert (measured.status, measured.error) == ("ok", None)


@pytest.mark.parametrize("started", [False, True])
def test_closing_a_runner_does_not_wait_for_its_inputs(
    device: Device, monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    monkeypatch.setattr(room, "write_cases", remote.tell_and_hang)
    runner = Runner(WORKLOAD.key, device)
    here = Path(runner._folder.name) / "here"
    while started and not (here.exists() and here.read_text()):
        time.sleep(0.01)
    pid = int(here.read_text()) if started else None
    start = time.monotonic()
    runner.close()
    assert time.monotonic() - start < 5
    assert pid is None or gone(pid)
    assert runner._child.pid is None
    assert not Path(runner._folder.name).exists()

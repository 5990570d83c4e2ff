"""The order in which the process of a last round checks and prepares libraries and peers."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.measure.planted import Planted
from tuner.build.compile import EMPTY_WORKLOAD, BuildOrder, build, program_of
from tuner.compare import runner as room
from tuner.compare import stage
from tuner.compare.comparison import Stage
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.measure.trial import RunOrder, write_cases
from tuner.peers import HOST
from tuner.process.child import Child
from tuner.settings import Settings

WORKLOAD = Conv1dWorkload(M=100, N=7, mode="same", kind="correlate")
SECONDS = 60.0


@pytest.fixture(scope="module")
def libraries(device: Device, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, template = tmp_path_factory.mktemp("libraries"), Planted()
    wanted = {
        stage.EMPTY: (EMPTY_WORKLOAD, "right"),
        "right": (WORKLOAD, "right"),
        "wrong": (WORKLOAD, "wrong"),
    }
    found = {}
    for name, (workload, behaviour) in wanted.items():
        found[name] = folder / f"{name}.so"
        config = template.config(behaviour)
        order = BuildOrder(workload.key, program_of(template), config, device.target, found[name])
        built = build(order, Settings().build_cache)
        assert built.status == "ok", built.error
    return found


def test_libraries_are_checked_before_they_are_prepared(
    device: Device, libraries: dict[str, Path], tmp_path: Path
) -> None:
    write_cases(WORKLOAD.key, tmp_path, 0)
    order = RunOrder(
        WORKLOAD.key, libraries["right"], tmp_path, "cpu", device.limits.cache_bytes, rough=True
    )
    with closing(Child()) as child:
        loaded = child.call(stage.load_libraries, order, libraries, timeout=SECONDS)
        ready = child.call(stage.prepare_libraries, order, timeout=SECONDS)
    assert loaded.subjects == {} and list(loaded.dropped) == ["wrong"]
    assert list(ready.subjects) == [stage.EMPTY, "right"] and ready.dropped == {}
    assert ready.subjects[stage.EMPTY].max_error is None
    error = ready.subjects["right"].max_error
    assert error is not None and 0 < error <= WORKLOAD.max_error


def test_libraries_are_prepared_after_the_peers_in_their_process(
    device: Device, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries are prepared last, because a peer's graph can slow the launches of every graph.
    But they are loaded first, so that they get memory before the peers."""
    steps: list[str] = []
    prepare = Stage.prepare

    def noted(self: Stage, function: Callable[..., Any], *arguments: Any) -> None:
        steps.append(function.__name__)
        prepare(self, function, *arguments)

    monkeypatch.setattr(Stage, "prepare", noted)
    monkeypatch.setattr(room, "shares_kernel_process", lambda group, kind: True)
    with Runner(WORKLOAD.key, device, settle_seconds=0) as runner:
        found = runner.compare(libraries, groups=[HOST])
    assert steps == ["load_libraries", "prepare_peers", "prepare_libraries"]
    assert {stage.EMPTY, "right", "numpy.correlate"} <= found.entries.keys()
    assert "wrong" in found.dropped

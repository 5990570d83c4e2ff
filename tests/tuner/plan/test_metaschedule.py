"""MetaSchedule's own search as a baseline: a real search of a small shape, a search that fails, and
a search whose job is cancelled."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.tuner.search import few
from tuner.compare.runner import Runner
from tuner.device.detect import detect
from tuner.plan import metaschedule as peer
from tuner.settings import Settings

SETTINGS = Settings(build_workers=2)
CONV1D = Conv1dWorkload(M=1000, N=16)
TRIALS = 4


def test_best_of_metaschedule_is_right_and_can_be_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search's best is a right library, and its other candidates' files are removed."""
    monkeypatch.setattr(peer, "tune", few.tune)
    device, workload = detect("cpu"), DepthwiseConv2dWorkload(B=1, C=3, H=9, W=11, K=3, stride=2)
    found = peer.search(workload, device, SETTINGS, TRIALS, 7, tmp_path, lambda: None)
    assert (found.status, found.error) == ("ok", None)
    with Runner(workload.key, device, seed=3) as runner:
        measured = runner.measure(found.order.library)
    assert (measured.status, measured.error) == ("ok", None)
    assert measured.timing["warm"]["median_us"] > 0
    assert list(tmp_path.glob("candidate-*")) == []


def test_failed_metaschedule_search_is_a_build_error_with_its_reason(tmp_path: Path) -> None:
    device = replace(detect("cpu"), target={"kind": "nosuch"})
    found = peer.search(CONV1D, device, SETTINGS, TRIALS, 7, tmp_path, lambda: None)
    assert found.status == "build_error"
    assert "nosuch" in (found.error or "")


def test_metaschedule_search_ends_if_its_job_is_cancelled(tmp_path: Path) -> None:
    """A check that raises, as that of a cancelled job does, ends the search."""

    class Cancelled(BaseException):
        pass

    def check() -> None:
        raise Cancelled

    start = time.monotonic()
    with pytest.raises(Cancelled):
        peer.search(CONV1D, detect("cpu"), SETTINGS, TRIALS, 7, tmp_path, check)
    assert time.monotonic() - start < 60

"""If a setting asks for it, MetaSchedule searches after the job and becomes one of the baselines.

The search is a stand-in here; the real search has a test of its own.
"""

from pathlib import Path
from typing import Any

import pytest
from processes import Database
from runs import Bench

from db.results import best
from tuner.build.compile import BuildOrder, Built
from tuner.plan import metaschedule as metaschedule_peer

SHAPE = {"M": 512, "N": 8}


@pytest.mark.parametrize("fails", [True, False])
def test_metaschedule_gets_as_many_trials_and_becomes_a_baseline(
    fails: bool, database: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def search(
        workload: Any, device: Any, settings: Any, trials: int, seed: int, folder: Path, check: Any
    ) -> Built:
        asked.append(trials)
        check()
        program = "templates.conv1d.ladder.baseline:naive"
        order = BuildOrder(workload.key, program, None, device.target, folder / "its-best.so")
        if fails:
            return Built("build_error", order, error="none of 3 candidates worked")
        return bench.builder.submit(order).result()

    monkeypatch.setattr(metaschedule_peer, "search", search)
    monkeypatch.setattr(bench, "metaschedule", True)
    job = database.submit(SHAPE, trials=3)
    assert bench.run(database, job).state == "succeeded"
    (found,) = best.lookup(database.engine, job.workload_key)
    (line,) = (each for each in found.baselines if each["name"] == "metaschedule")
    assert asked == [3]
    if fails:
        assert (line["time_us"], line["error"]) == (None, "none of 3 candidates worked")
    else:
        assert line["time_us"] > 0
        assert line["error"] is None

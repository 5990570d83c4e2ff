"""The finalists of the jobs on the pages of limits, as recorded trials."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import templates
from templates.limits import DeviceLimits
from templates.workload import Workload
from tests.benchmarks.predicted.trials import Recorded, Recordings, Timed

PAGES = {"cpu": "cpu", "cuda": "h200"}
FOLDER = Path(__file__).parents[3] / "docs/benchmarks"


def is_judged(workload: Workload) -> bool:
    """Return whether a shape is kept for judging: by its key's hash, a quarter of all shapes."""
    return hashlib.sha256(workload.key.encode()).digest()[0] % 4 == 0


def gathered(kind: str) -> Recordings:
    """Return the finalists of each job on a page whose shape is not kept for judging.

    Configurations that are no longer in any template's space are left out.
    """
    page = json.loads((FOLDER / f"{PAGES[kind]}.json").read_text())
    made = Recordings(page["runs"][-1]["device"], page["runs"][-1]["date"], {}, [])
    for row in page["rows"]:
        workload = templates.operator(row["operator"]).workload.model_validate(row["workload"])
        rounds = row["best"]["timing"].get("finalists", ())
        trials = [(each["config"], each["median_us"]) for each in rounds]
        valid = [] if is_judged(workload) else _valid(workload, made.limits, trials)
        if valid:
            made.shapes.append(Recorded.of(workload, valid))
    return made


def _valid(workload: Workload, limits: DeviceLimits, trials: list[Timed]) -> list[Timed]:
    applying = templates.templates_for(workload, limits)
    spaces = {each.name: each.space(workload, limits) for each in applying}
    return [
        (config, time_us)
        for config, time_us in trials
        if config["template"] in spaces and config in spaces[config["template"]]
    ]

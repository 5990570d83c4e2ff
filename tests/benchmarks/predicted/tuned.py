"""What other pages' jobs found: finalists to learn from, and bests to judge beside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import templates
from templates.limits import DeviceLimits
from templates.workload import Workload
from tests.benchmarks.predicted.trials import Config, Recorded, Recordings

PAGES = {"cuda": "h200", "cpu": "cpu"}
FOLDER = Path(__file__).parents[3] / "docs/benchmarks"
JUDGED = 4
"""Every so many-th is judged on, and not learnt from."""


@dataclass(frozen=True)
class Tuned:
    """A job's best, and its last round; times are warm medians in µs."""

    workload: Workload
    device: dict[str, Any]  # fingerprint
    date: str
    config: Config
    time_us: float
    pytorch_us: float | None
    trials: int
    finalists: list[tuple[Config, float]]


def tuned(kind: str) -> dict[str, Tuned]:
    """By key; of several jobs of a shape the last."""
    page = json.loads((FOLDER / f"{PAGES[kind]}.json").read_text())
    found = {}
    for row in page["rows"]:
        workload = templates.operator(row["operator"]).workload.model_validate(row["workload"])
        best, run = row["best"], page["runs"][row["run"]]
        peers = [
            each["time_us"]
            for each in best["baselines"]
            if each["name"].startswith("pytorch") and each["time_us"] and not each["error"]
        ]
        found[workload.key] = Tuned(
            workload,
            run["device"],
            run["date"],
            best["config"],
            best["timing"]["warm"]["median_us"],
            min(peers, default=None),
            row["trials"],
            [(each["config"], each["median_us"]) for each in best["timing"].get("finalists", ())],
        )
    return found


def to_judge(kind: str) -> list[Tuned]:
    return list(tuned(kind).values())[::JUDGED]


def to_learn(kind: str) -> list[Recordings]:
    """The finalists of the others that are still in a template's space, by device."""
    judged = {each.workload.key for each in to_judge(kind)}
    made: dict[str, Recordings] = {}
    for each in tuned(kind).values():
        if each.workload.key in judged:
            continue
        limits = DeviceLimits.from_json(each.device["limits"])
        spaces = {
            t.name: t.space(each.workload, limits)
            for t in templates.templates_for(each.workload, limits)
        }
        valid = [
            (config, time_us)
            for config, time_us in each.finalists
            if config["template"] in spaces and config in spaces[config["template"]]
        ]
        if valid:
            group = made.setdefault(
                json.dumps(each.device["name"]), Recordings(each.device, each.date, {}, [])
            )
            group.shapes.append(Recorded.of(each.workload, valid))
    return list(made.values())

"""The main job, measured: four shapes tuned by ``xgb`` from an empty database.

python -m tests.benchmarks.main_job --target cuda --trials 200 --write docs/benchmarks/main-job
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import templates
from db import best as bests
from db import queue, trials
from db.engine import open_engine
from db.jobs import JobOrder
from db.schema import migrate
from db.trials import Trial
from tuner.detect import detect
from tuner.settings import Settings
from tuner.worker import Worker

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("conv1d", {"M": 16384, "N": 32}),
    ("conv1d", {"M": 1_000_000, "N": 2047, "mode": "valid", "kind": "correlate"}),
    ("depthwise_conv2d", {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}),
    ("depthwise_conv2d", {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7}),
]


@dataclass(frozen=True)
class Row:
    """One shape's job: what won, beside what, and how quickly trials went."""

    operator: str
    workload: dict[str, Any]
    best: dict[str, Any]
    by_template: dict[str, float]  # each template's fastest trial, warm median in µs
    trials: int
    trials_per_second: float
    seconds_per_trial: dict[str, float]  # mean of each step; builds overlap with runs on a GPU
    job_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--templates", nargs="+", help="search these only, by name")
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    device = detect(options.target)
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"sqlite:///{folder}/benchmark.db")
        migrate(engine)
        worker = Worker(engine, device, Settings(), options.templates)
        try:
            rows = [
                _tuned(engine, worker, _order(device.kind, *shape, options.trials, options.seed))
                for shape in SHAPES
            ]
        finally:
            worker.close()
    command = (
        f"python -m tests.benchmarks.main_job --target {options.target} --trials {options.trials}"
        + (f" --templates {' '.join(options.templates)}" if options.templates else "")
    )
    result = {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "device": device.fingerprint(),
        "host": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "rows": [row.__dict__ for row in rows],
    }
    text = _markdown(result)
    print(text)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(text)


def _order(
    kind: str, operator: str, shape: dict[str, Any], count: int, seed: int | None
) -> JobOrder:
    workload = templates.operator(operator).workload.model_validate(shape)
    return JobOrder(
        operator, workload.key, workload.model_dump(), kind, count, "xgb", "retune", None, seed
    )


def _tuned(engine: Any, worker: Worker, order: JobOrder) -> Row:
    job, _ = queue.submit(engine, order)
    claimed = queue.claim(engine, worker.name, (order.target,), job_id=job.id)
    assert claimed is not None
    start = time.monotonic()
    worker.take(claimed)
    seconds = time.monotonic() - start
    ended = queue.get(engine, job.id)
    if ended.state != "succeeded":
        sys.exit(f"{order.workload_key}: {ended.error}")
    [best] = bests.lookup(engine, order.workload_key, kind=order.target)
    stored = trials.list_trials(engine, job.id, limit=order.trials).items
    # once warm: without the first trials, which wait for the processes to import TVM
    warm = stored[len(stored) // 10 :]
    span = (warm[-1].created_at - warm[0].created_at).total_seconds()
    return Row(
        order.operator,
        order.workload,
        {
            "config": best.config,
            "timing": best.timing,
            "gflops": best.gflops,
            "roofline": best.roofline,
            "max_error": best.max_error,
            "baselines": best.baselines,
            "versions": best.versions,
        },
        _by_template(stored),
        len(stored),
        (len(warm) - 1) / span,
        {
            step: sum(trial.seconds.get(step, 0.0) for trial in warm) / len(warm)
            for step in ("schedule", "build", "check", "run")
        },
        seconds,
    )


def _compared(baseline: dict[str, Any]) -> str:
    time_us, error = baseline["time_us"], baseline.get("error")
    timed = "not timed" if time_us is None else f"{time_us:.2f}"
    return f"{baseline['name']} {timed}" + (f" ({error})" if error else "")


def _by_template(stored: list[Trial]) -> dict[str, float]:
    fastest: dict[str, float] = {}
    for trial in stored:
        if trial.time_us is not None:
            known = fastest.get(trial.template, trial.time_us)
            fastest[trial.template] = min(known, trial.time_us)
    return fastest


def _markdown(result: dict[str, Any]) -> str:
    device = result["device"]
    versions = result["rows"][0]["best"]["versions"]
    lines = [
        "# The main job",
        "",
        f"{device['name']} ({device['arch']}), driver {device['driver']}, {result['date']}, "
        f"{result['host']}. "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        f"    {result['command']}",
        "",
        "Each shape is tuned from an empty database; times are medians of the finalists' round, in "
        "µs, all of one row in one process, taking turns. "
        "Errors are max\\|y - ref\\| / max\\|ref\\| against float64.",
        "",
        "| shape | best, warm | cold | empty kernel | error | trials a second "
        "| fastest trial of each template | compared with |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        best, timing = row["best"], row["best"]["timing"]
        shape = " ".join(
            f"{name}={value}"
            for name, value in row["workload"].items()
            if name in "MNBCHWK" or name == "mode"
        )
        compared = ", ".join(_compared(baseline) for baseline in best["baselines"])
        templates_ = ", ".join(f"{n} {t:.2f}" for n, t in row["by_template"].items())
        lines.append(
            f"| {row['operator']} {shape} | **{timing['warm']['median_us']:.2f}** "
            f"| {timing['cold']['median_us']:.2f} | {timing['empty_us']:.2f} "
            f"| {best['max_error']:.1e} | {row['trials_per_second']:.1f} | {templates_} "
            f"| {compared} |"
        )
    lines += ["", "Best configurations:", ""]
    for row in result["rows"]:
        knobs = " ".join(f"{name}={value}" for name, value in row["best"]["config"].items())
        lines.append(f"- {row['operator']}: `{knobs}`")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

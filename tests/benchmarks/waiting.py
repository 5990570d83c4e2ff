"""Benchmark of a job's time: until its first trial, in its search, and in its last round.

python -m tests.benchmarks.waiting --target cuda --write docs/benchmarks/waiting

One worker runs all jobs, one after the other, with all peers. The first job also waits for the
worker's processes to start.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tests.benchmarks.limits.shapes import LAYERS
from tests.benchmarks.tuned import Bench, bench, provenance, stated, write
from tuner.device.detect import detect

LAYERS_SECONDS = 240
"""The bar: the most seconds that the jobs of all layers may take on a GPU."""


def jobs(kind: str) -> list[tuple[str, dict[str, Any], int]]:
    """Return the jobs of a kind of device as (operator, shape, trials).

    No two jobs have the same shape, because the second job would know the first one's trials.
    """
    signal = {"M": 16384, "N": 32}
    signals = [
        ("conv1d", signal | fields, 64)
        for fields in ({"kind": "correlate"}, {}, {"mode": "same"}, {"mode": "valid"})
    ]
    layer = {"B": 1} if kind == "cpu" else {"B": 32, "dtype": "bfloat16"}
    return signals + [
        ("depthwise_conv2d", layer | {"C": C, "H": side, "W": side, "K": K, "layout": "NHWC"}, 96)
        for C, side, K in LAYERS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--trials", type=int, help="of each job, instead of its own number")
    parser.add_argument("--jobs", type=int, help="only so many")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    device = detect(options.target)
    given = {name: getattr(options, name) for name in ("trials", "jobs", "seed")}
    command = f"python -m tests.benchmarks.waiting --target {device.kind}" + "".join(
        f" --{name} {value}" for name, value in given.items() if value is not None
    )
    result: dict[str, Any] = provenance(command, device) | {"rows": []}
    with bench(device) as tuning:
        for operator, shape, trials in jobs(device.kind)[: options.jobs]:
            row = _row(tuning, operator, shape, options.trials or trials, options.seed)
            result["rows"].append(row)
            print(_line(row), flush=True)
            if options.write:  # so that the rows so far are not lost if the run is cut off
                write(options.write, result, _markdown(result))
    print(_markdown(result))


def _row(
    tuning: Bench, operator: str, shape: dict[str, Any], trials: int, seed: int | None
) -> dict[str, Any]:
    tuned = tuning.tune(operator, shape, trials, seed)
    return {
        "operator": operator,
        "shape": shape,
        "trials": tuned.trials,
        "phases": tuned.phases,
        "seconds": tuned.job_seconds,
        "trials_per_second": tuned.trials_per_second,
        "time_us": tuned.best["timing"]["warm"]["median_us"],
        "baselines": tuned.best["baselines"],
        "versions": tuned.best["versions"],
    }


def _line(row: dict[str, Any]) -> str:
    shape = " ".join(f"{name}={value}" for name, value in row["shape"].items())
    phases = " | ".join(f"{seconds:.1f}" for seconds in row["phases"].values())
    return (
        f"| {row['operator']} {shape} | {row['trials']} | {phases} | **{row['seconds']:.1f}** "
        f"| {row['trials_per_second']:.1f} | {row['time_us']:.2f} | {len(row['baselines'])} |"
    )


def _of_layers(rows: list[dict[str, Any]]) -> list[str]:
    seconds = [row["seconds"] for row in rows if row["operator"] == "depthwise_conv2d"]
    if not seconds:
        return []
    return [
        "",
        f"{len(seconds)} depthwise layers took {sum(seconds):.0f} s (bar {LAYERS_SECONDS}).",
    ]


def _markdown(result: dict[str, Any]) -> str:
    lines = [
        "# What a job waits for",
        "",
        stated(result, result["rows"][0]["versions"]),
        "",
        f"    {result['command']}",
        "",
        "Seconds of jobs that one worker ran one after the other, each from an empty search, with "
        "all peers timed anew. The first job also starts the processes that later ones find.",
        "",
        "| job | trials | to the first trial | search | last round | in all | trials a second "
        "| best, µs | compared with |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(_line, result["rows"]),
        *_of_layers(result["rows"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

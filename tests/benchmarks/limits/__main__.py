"""Every shape that has a bar, tuned by ``xgb`` from an empty database, and which bars are reached.

python -m tests.benchmarks.limits --target cuda --trials 512 --write docs/benchmarks/h200

A long run can be made in parts, each written as it grows, and joined:

python -m tests.benchmarks.limits --group depthwise_b32 --seconds 500 --write part1
python -m tests.benchmarks.limits --skip part1.json --write part2
python -m tests.benchmarks.limits --merge part1.json part2.json --write docs/benchmarks/h200

What a reader has to know of the runs is written by hand into "note", lines of a file of figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.benchmarks.limits.bars import BARS
from tests.benchmarks.limits.figures import Row, judged, warm_us
from tests.benchmarks.limits.page import markdown
from tests.benchmarks.limits.shapes import SHAPES, Shape
from tests.benchmarks.tuned import Bench, JobFailed, bench, provenance, write
from tuner.device.detect import detect

MODULE = "python -m tests.benchmarks.limits"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="auto")
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--seed", type=int)
    groups = sorted({shape.group for shapes in SHAPES.values() for shape in shapes})
    parser.add_argument("--group", nargs="+", choices=groups, help="these shapes only")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="likewise, by name")
    parser.add_argument(
        "--skip", nargs="+", type=Path, metavar="PART", help="not what these files have"
    )
    parser.add_argument("--seconds", type=float, help="begin no shape after so long")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="PART", help="measure nothing, join these files"
    )
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    if options.merge:
        result = merged([json.loads(part.read_text()) for part in options.merge])
    else:
        result = _measured(options)
    print(_told(result, options.write))


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One result of several from one kind of device. Where two have a shape, the later counts;
    notes follow each other."""
    devices = {run["device"]["name"] for part in parts for run in part["runs"]}
    if len(devices) > 1:
        sys.exit(f"these are of different devices: {', '.join(sorted(devices))}")
    runs: list[dict[str, Any]] = []
    rows: dict[str, Row] = {}
    for part in parts:
        rows |= {row["name"]: row | {"run": row["run"] + len(runs)} for row in part["rows"]}
        runs += part["runs"]
    kind = runs[0]["device"]["kind"]
    trials = max((row["trials"] for row in rows.values() if "error" not in row), default=0)
    order = [shape.name for shape in SHAPES[kind]]
    return {
        "command": f"{MODULE} --target {kind} --trials {trials}",
        "note": [line for part in parts for line in part.get("note", [])],
        "runs": runs,
        "rows": sorted(rows.values(), key=lambda row: order.index(row["name"])),
    }


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    device = detect(options.target)
    command = f"{MODULE} --target {device.kind} --trials {options.trials}"
    runs, rows = [provenance(command, device)], list[Row]()
    # by templates: the processes of each new worker import TVM again
    chosen = sorted(_chosen(options, device.kind), key=lambda shape: shape.only or ())
    for only, shapes in groupby(chosen, key=lambda shape: shape.only):
        with bench(device, only) as tuning:
            for shape in shapes:
                if options.seconds and time.monotonic() - begun > options.seconds:
                    print(f"{shape.name}: left, the time is over", flush=True)
                    continue
                rows.append(_row(tuning, shape, options.trials, options.seed))
                # what is there already outlives an early end
                _told(merged([{"runs": runs, "rows": rows}]), options.write)
    return merged([{"runs": runs, "rows": rows}])


def _chosen(options: argparse.Namespace, kind: str) -> list[Shape]:
    known = {
        row["name"]
        for part in options.skip or ()
        for row in json.loads(part.read_text())["rows"]
        if "error" not in row
    }
    return [
        shape
        for shape in SHAPES[kind]
        if shape.name not in known
        and (not options.group or shape.group in options.group)
        and (not options.only or any(fnmatchcase(shape.name, each) for each in options.only))
    ]


def _row(tuning: Bench, shape: Shape, trials: int, seed: int | None) -> Row:
    try:
        tuned = tuning.tune(shape.operator, shape.fields, trials, seed)
    except JobFailed as failed:
        print(failed, flush=True)
        return {"name": shape.name, "run": 0, "error": str(failed)}
    row = {"name": shape.name, "run": 0} | asdict(tuned)
    print(f"{shape.name}: {warm_us(row):.2f} µs, {tuned.job_seconds:.0f} s", flush=True)
    return row


def _told(result: dict[str, Any], path: Path | None) -> str:
    """The page; written with the figures where there is a path for them."""
    device = result["runs"][0]["device"]
    verdicts = [
        judged(bar, result["rows"], device["kind"], device["name"]) for bar in BARS[device["kind"]]
    ]
    text = markdown(result, verdicts)
    if path:
        write(path, result | {"bars": [verdict.to_json() for verdict in verdicts]}, text)
    return text


if __name__ == "__main__":
    main()

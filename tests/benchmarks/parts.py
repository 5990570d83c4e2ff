"""Functions that benchmarks of many shapes share. A long run is made in parts, each part is written
as it grows, and the parts are joined."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.benchmarks.limits.figures import Row, warm_us
from tests.benchmarks.limits.shapes import Shape
from tests.benchmarks.tuned import Bench, JobFailed, bench, provenance
from tuner.device.device import Device

RowOf = Callable[[Bench, Shape, Namespace], Row]


def add_arguments(parser: ArgumentParser, trials: int) -> None:
    parser.add_argument("--target", default="auto")
    parser.add_argument("--trials", type=int, default=trials)
    parser.add_argument(
        "--skip", nargs="+", type=Path, metavar="PART", help="not what these files have"
    )
    parser.add_argument("--seconds", type=float, help="begin no shape after so long")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="PART", help="measure nothing, join these files"
    )
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in paths]


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the notes, runs and rows of several results, which must be of one device.

    If two results have a row of the same name, the later one counts. Exit if their devices differ.
    """
    devices = {run["device"]["name"] for part in parts for run in part["runs"]}
    if len(devices) > 1:
        sys.exit(f"these are of different devices: {', '.join(sorted(devices))}")
    runs: list[dict[str, Any]] = []
    rows: dict[str, Row] = {}
    for part in parts:
        rows |= {row["name"]: row | {"run": row["run"] + len(runs)} for row in part["rows"]}
        runs += part["runs"]
    return {
        "note": [line for part in parts for line in part.get("note", [])],
        "runs": runs,
        "rows": list(rows.values()),
    }


def searched(tuning: Bench, shape: Shape, options: Namespace) -> Row:
    """Tune a shape according to ``options``, print a line and return its row. Raise JobFailed if it
    has no best."""
    tuned = tuning.tune(shape.operator, shape.fields, options.trials, options.seed)
    row = asdict(tuned) | {"delivered": tuning.delivered(tuned)}
    print(f"{shape.name}: {warm_us(row):.2f} µs, {tuned.job_seconds:.0f} s", flush=True)
    return row


def measured(
    shapes: Iterable[Shape],
    device: Device,
    command: str,
    options: Namespace,
    grown: Callable[[dict[str, Any]], object],
    row_of: RowOf = searched,
) -> dict[str, Any]:
    """Measure shapes and return a part.

    Shapes that have a row in a file of ``options.skip`` are left out. No shape begins after
    ``options.seconds``. ``row_of`` measures a shape. ``grown`` is called with the part after each
    row.
    """
    begun = time.monotonic()
    known = {
        row["name"]
        for part in read(options.skip or ())
        for row in part["rows"]
        if "error" not in row
    }
    part: dict[str, Any] = {"runs": [provenance(command, device)], "rows": []}
    left = 0
    # sorted by templates, because other templates need a new worker, whose processes import TVM
    chosen = sorted(
        (shape for shape in shapes if shape.name not in known), key=lambda shape: shape.only or ()
    )
    for only, together in groupby(chosen, key=lambda shape: shape.only):
        with bench(device, only) as tuning:
            for shape in together:
                if options.seconds and time.monotonic() - begun > options.seconds:
                    left += 1
                    continue
                part["rows"].append(
                    {"name": shape.name, "run": 0} | _or_error(tuning, shape, options, row_of)
                )
                # the rows so far are not lost if the run is cut off
                grown(part)
    if left:
        print(f"the time is over, {left} shapes are left", flush=True)
    return part


def most_trials(rows: Iterable[Row]) -> int:
    return max((row["trials"] for row in rows if "error" not in row), default=0)


def _or_error(tuning: Bench, shape: Shape, options: Namespace, row_of: RowOf) -> Row:
    try:
        return row_of(tuning, shape, options)
    except JobFailed as failed:
        print(failed, flush=True)
        return {"error": str(failed)}

"""Benchmark of every shape that has a bar, tuned by ``xgb`` from an empty database.

python -m tests.benchmarks.limits --target cuda --trials 512 --write docs/benchmarks/h200

The page says which bars are reached. A long run can be made in parts, each written as it grows,
which are joined afterwards:

python -m tests.benchmarks.limits --group depthwise_b32 --seconds 500 --write part1
python -m tests.benchmarks.limits --skip part1.json --write part2
python -m tests.benchmarks.limits --merge part1.json part2.json --write docs/benchmarks/h200

"note" in a file of figures, a list of lines, is written by hand: the page shows it above the runs.
"""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.benchmarks.limits.bars import BARS
from tests.benchmarks.limits.figures import judged
from tests.benchmarks.limits.page import markdown
from tests.benchmarks.limits.shapes import SHAPES, Shape
from tests.benchmarks.parts import add_arguments, joined, measured, most_trials, read
from tests.benchmarks.tuned import write
from tuner.device.detect import detect

MODULE = "python -m tests.benchmarks.limits"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, trials=512)
    parser.add_argument("--seed", type=int)
    groups = sorted({shape.group for shapes in SHAPES.values() for shape in shapes})
    parser.add_argument("--group", nargs="+", choices=groups, help="these shapes only")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="likewise, by name")
    options = parser.parse_args()
    result = merged(read(options.merge)) if options.merge else _measured(options)
    print(_told(result, options.write))


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join results of one kind of device into one, in the order of the shapes."""
    result = joined(parts)
    kind = result["runs"][0]["device"]["kind"]
    order = [shape.name for shape in SHAPES[kind]]
    result["rows"].sort(key=lambda row: order.index(row["name"]))
    return {"command": _command(kind, most_trials(result["rows"]))} | result


def _command(kind: str, trials: int) -> str:
    return f"{MODULE} --target {kind} --trials {trials}"


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    device = detect(options.target)
    part = measured(
        _chosen(options, device.kind),
        device,
        _command(device.kind, options.trials),
        options,
        lambda part: _told(merged([part]), options.write),
    )
    return merged([part])


def _chosen(options: argparse.Namespace, kind: str) -> list[Shape]:
    return [
        shape
        for shape in SHAPES[kind]
        if (not options.group or shape.group in options.group)
        and (not options.only or any(fnmatchcase(shape.name, each) for each in options.only))
    ]


def _told(result: dict[str, Any], path: Path | None) -> str:
    """Return the page of a result. If there is a path, write the page and the figures too."""
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

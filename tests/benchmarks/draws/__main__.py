"""Benchmark of conv1d on randomly drawn shapes, tuned from an empty database, beside their peers.

python -m tests.benchmarks.draws --target cpu --seed 1 --write docs/benchmarks/draws-cpu

A long run can be made in parts, each written as it grows, which are joined afterwards:

python -m tests.benchmarks.draws --seconds 500 --write part1
python -m tests.benchmarks.draws --skip part1.json --write part2
python -m tests.benchmarks.draws --merge part1.json part2.json --write docs/benchmarks/draws-cpu
"""

from __future__ import annotations

import argparse
from typing import Any

from tests.benchmarks.draws.page import markdown, worst_first
from tests.benchmarks.draws.shapes import drawn
from tests.benchmarks.parts import add_arguments, joined, measured, read
from tests.benchmarks.tuned import write
from tuner.device.detect import detect


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, trials=96)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the draw, and of each search")
    options = parser.parse_args()
    result = merged(read(options.merge)) if options.merge else _measured(options)
    print(_told(result, options))


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join results of one kind of device into one, with the worst rows first."""
    result = joined(parts)
    return result | {"rows": worst_first(result["rows"])}


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    device = detect(options.target)
    command = (
        f"python -m tests.benchmarks.draws --target {device.kind} --shapes {options.shapes} "
        f"--trials {options.trials} --seed {options.seed}"
    )
    shapes = drawn(options.shapes, options.seed, device.kind)
    part = measured(shapes, device, command, options, lambda part: _told(merged([part]), options))
    return merged([part])


def _told(result: dict[str, Any], options: argparse.Namespace) -> str:
    """Return the page of a result. With ``--write``, write the page and the figures too."""
    text = markdown(result)
    if options.write:
        write(options.write, result, text)
    return text


if __name__ == "__main__":
    main()

"""Benchmark of gradients of depthwise layers on a GPU, and of whole training steps.

python -m tests.benchmarks.training layers --trials 128 --write docs/benchmarks/training
python -m tests.benchmarks.training steps --network timm:convnext_tiny --batch 128 --write PAGE

The first can be made in parts, each written as it grows, which are joined afterwards:

python -m tests.benchmarks.training layers --seconds 500 --write part1
python -m tests.benchmarks.training layers --skip part1.json --write part2
python -m tests.benchmarks.training layers --merge part1.json part2.json \
    --write docs/benchmarks/training

The second needs PyTorch and timm, and no GPU with --device cpu.
"""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.benchmarks.parts import add_arguments, joined, measured, read
from tests.benchmarks.training.layers import shapes
from tests.benchmarks.training.page import markdown, verdicts
from tests.benchmarks.tuned import write
from tuner.device.detect import detect

WRITTEN = "path without suffix: .json and .md are made"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    _layers(commands.add_parser("layers", help="tune layers and their gradients"))
    _steps(commands.add_parser("steps", help="time a network's training step"))
    options = parser.parse_args()
    options.call(options)


def _layers(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, trials=128)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="these rows, by name")

    def call(options: argparse.Namespace) -> None:
        result = merged(read(options.merge)) if options.merge else _measured(options)
        print(_told(result, options.write))

    parser.set_defaults(call=call)


def _steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--network", required=True, help="timm:NAME")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, help="height and width; timm's if not given")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--trials", type=int, default=48, help="of each workload")
    parser.add_argument(
        "--seconds",
        type=float,
        default=540,
        help="half are for all searches; no curve begins after",
    )
    parser.add_argument("--budget", type=float, help="seconds of each search, not half by all")
    parser.add_argument("--no-tune", action="store_true", help="take what the database has")
    parser.add_argument(
        "--curve", type=int, default=200, help="steps of a curve of losses; 0: none"
    )
    parser.add_argument("--database", help="URL of one that is kept; a fresh one if not given")
    parser.add_argument("--write", type=Path, help=f"{WRITTEN}; rows of other networks stay")

    def call(options: argparse.Namespace) -> None:
        from tests.benchmarks.training.steps import command

        command.run(options)

    parser.set_defaults(call=call)


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join results of one device into one, in the order of the shapes."""
    result = joined(parts)
    order = [shape.name for shape in shapes()]
    return result | {"rows": sorted(result["rows"], key=lambda row: order.index(row["name"]))}


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    device = detect(options.target)
    command = (
        f"python -m tests.benchmarks.training layers --target {device.kind} "
        f"--trials {options.trials}"
    )
    patterns = options.only or ["*"]
    chosen = [s for s in shapes() if any(fnmatchcase(s.name, each) for each in patterns)]
    part = measured(
        chosen, device, command, options, lambda part: _told(merged([part]), options.write)
    )
    return merged([part])


def _told(result: dict[str, Any], path: Path | None) -> str:
    """Return the page of a result. If there is a path, write the page and the figures too."""
    text = markdown(result)
    if path:
        write(path, result | {"bars": [each.to_json() for each in verdicts(result)]}, text)
    return text


if __name__ == "__main__":
    main()

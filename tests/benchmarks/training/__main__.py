"""Gradients of depthwise layers beside PyTorch's, on a GPU; and whole training steps.

python -m tests.benchmarks.training programs FOLDER --samples 24
python -m tests.benchmarks.training measure FOLDER --write RESULT
python -m tests.benchmarks.training programs FOLDER --near RESULT.json
python -m tests.benchmarks.training measure FOLDER --beside RESULT.json --write PAGE
python -m tests.benchmarks.training steps --network timm:convnext_tiny --batch 128 --write PAGE

The first and the third need TVM and no GPU: they write CUDA sources of random configurations, and
of the neighbours of the fastest. The second and the fourth need a GPU, PyTorch and cuda-bindings
alone. The last needs all of that, timm, and no GPU with --device cpu.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

WRITTEN = "path without suffix: .json and .md are made"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)
    _programs(steps.add_parser("programs", help="write CUDA sources"))
    _measure(steps.add_parser("measure", help="time them"))
    _steps(steps.add_parser("steps", help="time a network's training step"))
    options = parser.parse_args()
    options.call(options)


def _programs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=24, help="configurations of each template")
    parser.add_argument("--near", type=Path, help="neighbours of the fastest two of that result")

    def call(options: argparse.Namespace) -> None:
        from tests.benchmarks.training import programs

        near = fastest(json.loads(options.near.read_text())) if options.near else None
        print(programs.write(options.folder, options.samples, near), "programs")

    parser.set_defaults(call=call)


def _measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=500, help="begin no program after so long")
    parser.add_argument("--layers", nargs="+", help="these alone")
    parser.add_argument("--beside", type=Path, help="a result of the same device to add to")
    parser.add_argument("--write", type=Path, help=WRITTEN)

    def call(options: argparse.Namespace) -> None:
        from tests.benchmarks.training import measured, page

        result = measured.measured(options.folder, options.seconds, options.layers)
        if options.beside:
            result = joined(json.loads(options.beside.read_text()), result)
        text = page.markdown(result)
        print(text)
        if options.write:
            options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
            options.write.with_suffix(".md").write_text(text)

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
    parser.add_argument("--curve", type=int, default=200, help="steps of a curve of losses; 0: none")
    parser.add_argument("--database", help="URL of one that is kept; a fresh one if not given")
    parser.add_argument("--write", type=Path, help=f"{WRITTEN}; rows of other networks stay")

    def call(options: argparse.Namespace) -> None:
        from tests.benchmarks.training.steps import command

        command.run(options)

    parser.set_defaults(call=call)


def fastest(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The two fastest configurations of each layer and direction."""
    return {
        key: [each["config"] for each in row["ours"][:2]] for key, row in result["rows"].items()
    }


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The second's times, with how many configurations both tried."""
    if first["device"] != second["device"]:
        raise SystemExit(f"these are of {first['device']} and {second['device']}")
    for key, row in second["rows"].items():
        row["tried"] += first["rows"][key]["tried"] if key in first["rows"] else 0
    return second | {"commands": first["commands"] + second["commands"]}


if __name__ == "__main__":
    main()

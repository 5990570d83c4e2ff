"""Benchmark of whole models for inference, before and after ``optimize_``, beside the fastest way
that PyTorch has to run them: networks of timm, and language and audio models of transformers.

python -m tests.benchmarks.models --device cuda --dtype float16 --batch 32 \\
    --networks mobilenetv2_100 efficientnet_b0 --write docs/benchmarks/models
python -m tests.benchmarks.models --device cuda --dtype bfloat16 --batch 1 --length 4096 \\
    --networks transformers:lfm2-350m --write docs/benchmarks/models
python -m tests.benchmarks.models --device cuda --dtype float16 --batch 1 --length 200 \\
    --networks transformers:hifigan --write docs/benchmarks/models
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog
import torch

from tests.benchmarks.device import device_of
from tests.benchmarks.models.audio import AUDIO
from tests.benchmarks.models.causal import PREFIX, SHAPES
from tests.benchmarks.models.measured import HOW, measured, speedup
from tests.benchmarks.models.networks import DTYPES, LAYOUTS, Case
from tests.benchmarks.models.page import draw, page
from tests.benchmarks.tuned import provenance, write
from tuner.client.local import Local

MODULE = "python -m tests.benchmarks.models"
LENGTH = "of an input to a model of transformers, in tokens, frames or samples"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="float16")
    parser.add_argument("--batch", type=int, nargs="+", default=[32])
    parser.add_argument("--layout", choices=LAYOUTS, default="NHWC")
    parser.add_argument("--length", type=int, nargs="+", default=[4096], help=LENGTH)
    parser.add_argument(
        "--networks",
        nargs="+",
        required=True,
        help=f"names of timm's, or {PREFIX}NAME, with one of {', '.join([*SHAPES, *AUDIO])}",
    )
    parser.add_argument("--how", nargs="+", choices=HOW, default=list(HOW[:2]))
    parser.add_argument("--seconds", type=float, help="begin no network after so long")
    parser.add_argument("--database", help="URL of one that is kept; a fresh one if not given")
    parser.add_argument(
        "--write",
        type=Path,
        help="path without suffix: .json and .md are made; rows of other networks stay",
    )
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    begun = time.monotonic()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="convtune-models-") as folder:
        os.environ["TUNER_DATABASE_URL"] = options.database or f"sqlite:///{folder}/models.db"
        run = provenance(_command(options), device_of(options.device))
        for package in {_package(network) for network in options.networks}:
            run["peers"][package] = __import__(package).__version__
        for case in _cases(options):
            if options.seconds and time.monotonic() - begun > options.seconds:
                print(f"{case.name}: left, the time is over", flush=True)
                continue
            rows.append(_row(case, options))
            result = merged(rows, run, options.write)
            if options.write:
                write(options.write, result, page(result, options.write.name))
                draw(options.write, result)
    print(page(merged(rows, run, None)))


def _package(network: str) -> str:
    return "transformers" if network.startswith(PREFIX) else "timm"


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    for network in options.networks:
        for batch in options.batch:
            for length in options.length if network.startswith(PREFIX) else [None]:
                yield Case(network, batch, options.dtype, options.device, length)


def _row(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    start = time.monotonic()
    try:
        with Local() as source:
            row = measured(case, options.layout, options.how, source)
    except Exception as error:
        print(f"{case.name}: {type(error).__name__}: {error}", flush=True)
        return {"name": case.name, **case.fields, "error": f"{type(error).__name__}: {error}"}
    finally:
        torch.compiler.reset()
        gc.collect()
        if case.device == "cuda":
            torch.cuda.empty_cache()
    times = ", ".join(f"{name} {ms:.3f}" for name, ms in row["ms"].items())
    seconds = time.monotonic() - start
    print(f"{case.name}: {speedup(row):.3f} times; ms: {times}; {seconds:.0f} s", flush=True)
    return row


def merged(rows: list[dict[str, Any]], run: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """Return a result with these rows and those of other networks that the file has.

    Each row has the number of the run that measured it.
    """
    file = path.with_name(path.name + ".json") if path else None
    before = json.loads(file.read_text()) if file and file.exists() else {"runs": [], "rows": []}
    runs = before["runs"] if run in before["runs"] else [*before["runs"], run]
    kept = {row["name"]: row for row in [*before["rows"], *rows]}
    number = {row["name"]: {"run": runs.index(run)} for row in rows}
    return {"runs": runs, "rows": [row | number.get(name, {}) for name, row in kept.items()]}


def _command(options: argparse.Namespace) -> str:
    said = [f"--device {options.device} --dtype {options.dtype} --layout {options.layout}"]
    said.append("--batch " + " ".join(map(str, options.batch)))
    if any(network.startswith(PREFIX) for network in options.networks):
        said.append("--length " + " ".join(map(str, options.length)))
    said.append("--networks " + " ".join(options.networks))
    said.append("--how " + " ".join(options.how))
    return " ".join([MODULE, *said])


if __name__ == "__main__":
    main()

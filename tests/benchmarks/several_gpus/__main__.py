"""Benchmark of two GPUs of one host: two workers with PostgreSQL, and one with an RPC tracker.

python -m tests.benchmarks.several_gpus --write docs/benchmarks/several-gpus
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.several_gpus import farm, workers
from tests.benchmarks.tuned import knobs, provenance, stated, write
from tuner.device.detect import detect
from tuner.measure.versions import versions
from tuner.process.child import Child

LOADS = {"layers": "depthwise layers of a network", "mixed": "both operators, large and small"}
PARTS = {
    "layers": partial(workers.measured, workers.LAYERS),
    "mixed": partial(workers.measured, workers.MIXED),
    "farm": farm.measured,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--write",
        type=Path,
        help="path without suffix: .json and .md are made; its other parts are kept",
    )
    parser.add_argument("--logs", type=Path, help="folder for the processes' logs")
    options = parser.parse_args()
    child = Child()
    device = child.call(detect, "cuda", timeout=120)
    child.close()
    result = provenance("python -m tests.benchmarks.several_gpus", device)
    if options.write:
        result |= _measured_before(options.write.with_suffix(".json"), result["device"])
    with TemporaryDirectory(prefix="convtune-several-") as name:
        folder = options.logs or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for part in options.parts:
            result[part] = PARTS[part](folder)
            print(part, result[part], flush=True)
    page = _page(result)
    print(page)
    if options.write:
        write(options.write, result, page)
    if any(not kept for _, kept in _bars(result)):
        sys.exit("a bar is missed")


def _measured_before(file: Path, device: dict[str, Any]) -> dict[str, Any]:
    """Return a file's parts with the name and driver of this device."""
    before = json.loads(file.read_text()) if file.exists() else {}
    same = all(before.get("device", {}).get(key) == device[key] for key in ("name", "driver"))
    return {part: before[part] for part in PARTS if same and part in before}


def _bars(result: dict[str, Any]) -> list[tuple[str, bool]]:
    bars = [
        (
            f"{text}: two workers' time is {result[load]['ratio']:.2f} of one's "
            f"(at most {workers.BAR})",
            result[load]["ratio"] <= workers.BAR,
        )
        for load, text in LOADS.items()
        if load in result
    ]
    for row in result.get("farm", {}).get("rows", []):
        name = row["operator"]
        bars += [
            (f"{name}: {row['pace']:.2f} times the trials a second (at least 1.6)",
             row["pace"] >= farm.BAR_PACE),
            (f"{name}: winners differ from the local one's by {row['winner']:.1%} (at most 3 %)",
             row["winner"] <= farm.BAR_WINNER),
        ]  # fmt: skip
    return bars


def _page(result: dict[str, Any]) -> str:
    lines = [
        "# Several GPUs",
        "",
        f"Two of: {stated(result, versions('cuda'))}",
        "",
        f"    {result['command']}",
        "",
        "Both GPUs are of one host.",
        "",
    ]
    if LOADS.keys() & result.keys():
        lines += _workers_table(result)
    if "farm" in result:
        lines += _farm_table(result["farm"])
    lines += [f"- {text}: {'met' if kept else 'missed'}" for text, kept in _bars(result)]
    return "\n".join([*lines, ""])


def _workers_table(result: dict[str, Any]) -> list[str]:
    rows = [
        f"| {found['jobs']}: {text} | {found['seconds']['1']:.1f} | {found['seconds']['2']:.1f} "
        f"| {found['ratio']:.2f} |"
        for load, text in LOADS.items()
        if (found := result.get(load))
    ]
    return [
        f"Jobs of {workers.TRIALS} trials in one PostgreSQL, {workers.BUILDERS} builders a worker, "
        "from their order to the end of the last. Two workers are `tuner worker --gpus 0,1`.",
        "",
        "| jobs | one worker on one GPU, s | two workers on two, s | of one's time |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _farm_table(found: dict[str, Any]) -> list[str]:
    lines = [
        f"One worker with {farm.BUILDERS} builders, {found['trials']} trials a job by search "
        f"`{farm.SEARCH}`, which proposes the same everywhere: what differs is the measuring. "
        "The servers are on the worker's host. Warm medians of the finalists' round in µs.",
        "",
        "| shape | measured by | trials a second | build, s | check and run, s | best "
        "| configuration |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        shape = f"{row['operator']} {knobs(row['workload'])}"
        lines += [
            f"| {shape} | {how} | {each['pace']:.1f} | {each['seconds']['build']:.2f} "
            f"| {each['seconds']['check'] + each['seconds']['run']:.3f} | {each['time_us']:.2f} "
            f"| `{knobs(each['config'])}` |"
            for how, each in row["how"].items()
        ]
    return [*lines, ""]


if __name__ == "__main__":
    main()

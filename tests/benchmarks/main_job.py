"""Benchmark of the main job: four shapes tuned by ``xgb`` from an empty database.

python -m tests.benchmarks.main_job --target cuda --trials 200 --write docs/benchmarks/main-job
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tests.benchmarks.tuned import bench, compared, knobs, provenance, stated, write
from tuner.device.detect import detect

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("conv1d", {"M": 16384, "N": 32}),
    ("conv1d", {"M": 1_000_000, "N": 2047, "mode": "valid", "kind": "correlate"}),
    ("depthwise_conv2d", {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}),
    ("depthwise_conv2d", {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--templates", nargs="+", help="search these only, by name")
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    device = detect(options.target)
    with bench(device, options.templates) as tuning:
        rows = [tuning.tune(*shape, options.trials, options.seed) for shape in SHAPES]
    command = (
        f"python -m tests.benchmarks.main_job --target {options.target} --trials {options.trials}"
        + (f" --templates {' '.join(options.templates)}" if options.templates else "")
    )
    result = provenance(command, device) | {"rows": [row.__dict__ for row in rows]}
    text = _markdown(result)
    print(text)
    if options.write:
        write(options.write, result, text)


def _markdown(result: dict[str, Any]) -> str:
    lines = [
        "# The main job",
        "",
        stated(result, result["rows"][0]["best"]["versions"]),
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
        beside = ", ".join(compared(baseline) for baseline in best["baselines"])
        templates = ", ".join(f"{n} {t:.2f}" for n, t in row["by_template"].items())
        lines.append(
            f"| {row['operator']} {shape} | **{timing['warm']['median_us']:.2f}** "
            f"| {timing['cold']['median_us']:.2f} | {timing['empty_us']:.2f} "
            f"| {best['max_error']:.1e} | {row['trials_per_second']:.1f} | {templates} "
            f"| {beside} |"
        )
    lines += ["", "Best configurations:", ""]
    lines += [f"- {row['operator']}: `{knobs(row['best']['config'])}`" for row in result["rows"]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

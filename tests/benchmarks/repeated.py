"""Benchmark of repeatability: one job, run several times from an empty database.

python -m tests.benchmarks.repeated --target cuda
python -m tests.benchmarks.repeated --target cuda --job large-kernel --trials 256 --runs 5
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tests.benchmarks.tuned import bench, knobs, provenance, stated, write
from tuner.device.detect import detect

JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "signal": ("conv1d", {"M": 16384, "N": 32}),
    "large-kernel": ("depthwise_conv2d", {"B": 32, "C": 128, "H": 56, "W": 56, "K": 31}),
}
ALIKE = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--job", choices=JOBS, default="signal")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    device = detect(options.target)
    command = (
        f"python -m tests.benchmarks.repeated --target {device.kind} --job {options.job} "
        f"--trials {options.trials} --runs {options.runs}"
    )
    rows = []
    for seed in range(options.runs):
        with bench(device) as tuning:
            found = tuning.tune(*JOBS[options.job], options.trials, seed, baselines="none")
        warm = found.best["timing"]["warm"]["median_us"]
        noise = found.best["timing"]["noise"]
        config = found.best["config"]
        rows.append({"seed": seed, "time_us": warm, "config": config, "noise": noise})
        print(f"| {seed} | {warm:.3f} | {noise['reason'] or ''} | {knobs(config)} |", flush=True)
    first, *others = [row["time_us"] for row in rows]
    alike = sum(abs(time / first - 1) <= ALIKE for time in others)
    said = f"{alike} of {len(others)} repeated runs ended within {ALIKE:.0%} of the first."
    text = (
        f"{stated(provenance(command, device), found.best['versions'])}\n\n    {command}\n\n{said}"
    )
    print(text)
    if options.write:
        result = provenance(command, device) | {"rows": rows, "alike": alike}
        write(options.write, result, f"# One job, repeated\n\n{text}\n")


if __name__ == "__main__":
    main()

"""Benchmark of predictions beside searches, on shapes that no ranker has learnt from.

``match=predicted`` answers for a shape; then the same worker searches it. The search's last round
times the prediction, the search's best and PyTorch's peers together.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from templates.workload import Workload
from tests.benchmarks.limits.figures import Row, peers
from tests.benchmarks.limits.shapes import Shape
from tests.benchmarks.parts import joined, measured
from tests.benchmarks.predicted.shapes import to_judge
from tests.benchmarks.tuned import Bench, JobFailed, knobs
from tuner.device.device import Device

PYTORCH = "pytorch*"


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join results of one kind of device into one, with the worst prediction first."""
    result = joined(parts)
    result["shapes"] = max(part["shapes"] for part in parts)
    result["rows"].sort(key=lambda row: 0.0 if "error" in row else as_fast_as_tuned(row))
    return result


def live(
    device: Device, options: Namespace, grown: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """Measure shapes and return a part, as :func:`tests.benchmarks.parts.measured` does."""
    drawn = [
        Shape(_name(each), each.operator, each.operator, each.explicit_fields)
        for each in to_judge(device.kind, options.shapes)
    ]
    command = (
        f"python -m tests.benchmarks.predicted live --target {device.kind} "
        f"--shapes {options.shapes} --trials {options.trials} --seed {options.seed}"
    )
    told = {"shapes": options.shapes}
    return told | measured(drawn, device, command, options, lambda part: grown(told | part), _row)


def as_fast_as_tuned(row: Row) -> float:
    """Return the speed-up of the prediction over the search's fastest configuration."""
    return float(tuned(row)["median_us"]) / predicted_us(row)


def tuned(row: Row) -> dict[str, Any]:
    """Return the fastest configuration of the search's last round. On a CPU, the best may be
    another configuration, because it is timed in a separate process."""
    return _finalists(row)[0]


def predicted_us(row: Row) -> float:
    """Return the prediction's time in the search's last round, in µs."""
    return _in_the_round(row, row["predicted"]["config"])


def as_fast_as_pytorch(row: Row) -> float | None:
    """Return the prediction's speed-up over PyTorch's fastest peer, or None if no such peer was
    timed.

    A peer that is called from Python is compared with a call. The prediction's call was not timed.
    Its overhead over the kernel is assumed to equal the best's.
    """
    slower = predicted_us(row) - _in_the_round(row, row["best"]["config"])
    return min(
        (
            peer["time_us"] / (peer["time_us"] / peer["speedup"] + slower)
            for peer in peers(row, PYTORCH)
        ),
        default=None,
    )


def _row(tuning: Bench, shape: Shape, options: Namespace) -> Row:
    predicted = tuning.predict(shape.operator, shape.fields)
    found = tuning.tune(
        shape.operator, shape.fields, options.trials, options.seed, baselines="pytorch"
    )
    row = asdict(found) | {"predicted": asdict(predicted)}
    if not any(each["config"] == predicted.config for each in _finalists(row)):
        raise JobFailed(f"{shape.name}: the search's last round dropped {predicted.config}")
    beside = as_fast_as_pytorch(row)
    print(
        f"{shape.name}: {as_fast_as_tuned(row):.2f} of the tuned speed, "
        f"{'no' if beside is None else f'{beside:.2f}'} × PyTorch, "
        f"answer {predicted.seconds:.1f} s, job {found.job_seconds:.0f} s",
        flush=True,
    )
    return row


def _name(workload: Workload) -> str:
    return f"{workload.operator} {knobs(workload.explicit_fields)}"


def _in_the_round(row: Row, config: dict[str, Any]) -> float:
    found = (each["median_us"] for each in _finalists(row) if each["config"] == config)
    return float(next(found))


def _finalists(row: Row) -> list[dict[str, Any]]:
    return list(row["best"]["timing"]["finalists"])

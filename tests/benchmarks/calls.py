"""Benchmark of the host's time for a call from Python: PyTorch's function, its module, its operator
by name and a model with a batch norm and ReLU6, beside convtune's of each kind.

python -m tests.benchmarks.calls --device cuda --write docs/benchmarks/calls

The layer is so small that a GPU ends it before the next call. All calls take turns in one process.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import structlog
import torch
from torch.nn import functional

import tuner.torch
from tests.benchmarks.device import device_of
from tests.benchmarks.tuned import provenance, stated, write
from tuner.client.local import Local
from tuner.torch.modules import DepthwiseConv2d

MODULE = "python -m tests.benchmarks.calls"
LAYER = {"B": 1, "C": 32, "H": 14, "W": 14, "K": 3, "layout": "NHWC", "bias": True}
CALLS, TURNS = 300, 40
FUNCTION, BAR_US = "F.conv2d", 5.0
"""PyTorch's quickest call, and the most µs by which our call may exceed PyTorch's of the same
kind."""
THEIRS = {
    "tuner.torch.DepthwiseConv2d": "nn.Conv2d",
    "torch.ops.convtune.depthwise_conv2d": "torch.ops.aten.conv2d",
    "optimize_(model)": "model",
    "torch.compile(optimize_(model))": "torch.compile(model)",
}
"""For each of our calls, PyTorch's call of the same kind: a module, an operator by name, or a
model."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="convtune-calls-") as folder:
        os.environ["TUNER_DATABASE_URL"] = f"sqlite:///{folder}/calls.db"
        run = provenance(f"{MODULE} --device {options.device}", device_of(options.device))
        with Local() as source:
            workloads = [
                {"operator": "depthwise_conv2d", "workload": work, "calls": 1}
                for work in (LAYER, LAYER | {"activation": "relu6"})
            ]
            terms: dict[str, Any] = {"target": options.device, "trials": options.trials}
            source.tune_model("calls", workloads, baselines="none", **terms)
            result = {"run": run, "us": in_turns(_calls(options.device, source))}
    print(page(result))
    if options.write:
        write(options.write, result, page(result))


def _calls(device: str, source: Local) -> dict[str, Callable[[], Any]]:
    """Return the calls by name, after a check that all return the same output."""
    batch, channels, height, width = (LAYER[axis] for axis in "BCHW")
    x = torch.randn(batch, channels, height, width, device=device)
    x = x.to(memory_format=torch.channels_last)
    own = torch.nn.Conv2d(channels, channels, 3, padding=1, groups=channels, device=device)
    own.to(memory_format=torch.channels_last)
    weight, bias = own.weight.detach().contiguous(), own.bias.detach()
    module = DepthwiseConv2d(weight, bias, source=source, padding=(1, 1, 1, 1))
    tuner.torch.use(source)
    named = torch.ops.convtune.depthwise_conv2d
    theirs, steps = torch.ops.aten.conv2d, ([1, 1], [1, 1], [1, 1])
    last = own.weight.detach()
    model = torch.nn.Sequential(own, torch.nn.BatchNorm2d(channels), torch.nn.ReLU6())
    model.eval().to(device)
    tuned = copy.deepcopy(model)
    with torch.no_grad():
        tuner.torch.optimize_(tuned, x, source=source)
    compiled, compiled_tuned = torch.compile(model), torch.compile(tuned)
    calls = {
        FUNCTION: lambda: functional.conv2d(x, last, bias, padding=1, groups=channels),
        "nn.Conv2d": lambda: own(x),
        "torch.ops.aten.conv2d": lambda: theirs(x, last, bias, *steps, channels),
        "model": lambda: model(x),
        "torch.compile(model)": lambda: compiled(x),
        "tuner.torch.DepthwiseConv2d": lambda: module(x),
        "torch.ops.convtune.depthwise_conv2d": lambda: named(x, weight, bias, padding=1),
        "optimize_(model)": lambda: tuned(x),
        "torch.compile(optimize_(model))": lambda: compiled_tuned(x),
    }
    with torch.inference_mode():
        for name, of_pytorch in THEIRS.items():  # the time of a wrong call is worthless
            assert torch.allclose(calls[name](), calls[of_pytorch](), atol=1e-4), name
    for layer in (module, tuned[0]):
        assert layer.used == "tuned", layer.reason
    return calls


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the host's time for each call in µs: the median over all turns except the first."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with torch.inference_mode():
        for _ in range(TURNS):
            for name, call in calls.items():
                _wait()
                start = time.perf_counter()
                for _ in range(CALLS):
                    call()
                samples[name].append((time.perf_counter() - start) / CALLS)
    return {name: 1e6 * median(taken[1:]) for name, taken in samples.items()}


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def page(result: dict[str, Any]) -> str:
    run, times = result["run"], result["us"]
    lines = [
        "# A call from Python",
        "",
        "What a call costs the host, for a layer so small that a GPU is done before the next: a "
        f"float32 NHWC depthwise layer of {LAYER['C']}×{LAYER['H']}² k{LAYER['K']} with bias, in "
        "inference mode, medians of turns in one process. A model is this layer with a batch norm "
        "and ReLU6.",
        "",
        f"{stated(run, {})} `{run['command']}`",
        "",
        f"| call | µs | more than `{FUNCTION}` | more than PyTorch's of its kind | bar |",
        "|---|---|---|---|---|",
    ]
    for name, us in times.items():
        more = "" if name == FUNCTION else f"{us - times[FUNCTION]:+.2f}"
        kind = f"{us - times[THEIRS[name]]:+.2f}" if name in THEIRS else ""
        lines.append(f"| `{name}` | {us:.2f} | {more} | {kind} | {f'{BAR_US:g}' if kind else ''} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

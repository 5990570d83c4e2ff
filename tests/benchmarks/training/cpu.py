"""Benchmark of gradients of ConvNeXt-T's layers on a CPU, beside PyTorch's.

python -m tests.benchmarks.training.cpu --torch PYTHON --write docs/benchmarks/training-cpu

PYTHON is an interpreter that has PyTorch, which runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

THREADS = 2
BATCH = 8
LAYERS = ((96, 56), (192, 28), (384, 14), (768, 7))  # channels, height and width
KERNEL = 7
DIRECTIONS = ("forward", "backward_input", "backward_weight")
CALLS = 9

_PYTORCH = """
import json, statistics, sys, time, torch
threads, batch, kernel, calls, layers = json.loads(sys.argv[1])
torch.set_num_threads(threads)
rows = []
for channels, size in layers:
    row = {}
    for layout, form in ("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last):
        x, g = (torch.randn(batch, channels, size, size).to(memory_format=form) for _ in range(2))
        w = torch.randn(channels, 1, kernel, kernel)
        rest = ([1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], channels)
        back = torch.ops.aten.convolution_backward
        ways = {
            "forward": lambda: torch.ops.aten.convolution(x, w, None, *rest),
            "both": lambda: back(g, x, w, None, *rest, [True, True, False]),
        }
        row[layout] = {}
        for name, call in ways.items():
            call()
            times = []
            for _ in range(calls):
                begun = time.perf_counter()
                call()
                times.append(time.perf_counter() - begun)
            row[layout][name] = 1e3 * statistics.median(times)
    rows.append(row)
print(json.dumps({"torch": torch.__version__, "rows": rows}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", required=True, help="a Python that has PyTorch")
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(THREADS), "TVM_BIND_THREADS": "0"}
    told = json.dumps([THREADS, BATCH, KERNEL, CALLS, LAYERS])
    command = [options.torch, "-c", _PYTORCH, told]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    pytorch = json.loads(answer.stdout)
    rows = [
        {"layer": f"{channels}×{size}² k{KERNEL}", "ours": _ours(channels, size), "pytorch": theirs}
        for (channels, size), theirs in zip(LAYERS, pytorch["rows"], strict=True)
    ]
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "device": _device(),
        "torch": pytorch["torch"],
        "rows": rows,
    }
    text = markdown(result)
    print(text)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(text)


def _device() -> str:
    from tuner.device import cpu_facts

    return cpu_facts.device().name


def _ours(channels: int, size: int) -> dict[str, Any]:
    """Return the fastest configuration of a layer and its time in ms, by direction."""
    from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload

    found = {}
    for direction in DIRECTIONS:
        fields = {"B": BATCH, "C": channels, "H": size, "W": size, "K": KERNEL, "layout": "NHWC"}
        workload = DepthwiseConv2dWorkload.model_validate(fields | {"direction": direction})
        timed = [(_timed(call), config) for config, call in _programs(workload)]
        found[direction] = min(timed, key=lambda each: each[0])
    return {name: {"ms": ms, "config": config} for name, (ms, config) in found.items()}


def _programs(workload: Any) -> Iterator[tuple[dict[str, Any], Callable[[], None]]]:
    """Yield a few configurations of the template for channels last, on all threads, each with a
    function that calls it."""
    import numpy as np
    import tvm

    import templates
    from tuner.build.alignment import element_aligned
    from tuner.device import cpu_facts
    from tuner.library.tensors import shared_view

    cpu = cpu_facts.device()
    name = "channels" if workload.direction != "backward_weight" else "weight_channels"
    (template,) = (t for t in templates.templates_for(workload, cpu.limits) if t.name == name)
    space = template.space(workload, cpu.limits)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(argument.shape).astype("f4") for argument in workload.inputs]
    tensors = [shared_view(each) for each in (*given, np.empty(workload.output.shape, "f4"))]
    for config in _configs(name):
        if config in space:
            module = element_aligned(template.schedule(workload, config).mod)
            main = tvm.compile(module, target=tvm.target.Target(cpu.target))["main"]
            yield config, lambda main=main: main(*tensors)


def _configs(name: str) -> list[dict[str, Any]]:
    shared = {"template": name, "threading": "parallel"}
    if name == "weight_channels":
        return [
            shared | {"lanes": lanes, "tap_rows": rows, "tap_columns": KERNEL}
            for lanes in (16, 32)
            for rows in (1, 2)
        ]
    return [
        shared
        | {"lanes": 16, "vectors": vectors, "columns": columns, "rows_per_task": rows}
        | {"inner": "channels", "unroll": "columns"}
        for vectors, columns in ((1, 7), (2, 7), (1, 14))
        for rows in (1, 7)
    ]


def _timed(call: Callable[[], None]) -> float:
    """Return the median time of a call in ms."""
    call()
    times = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times)


def markdown(result: dict[str, Any]) -> str:
    lines = [
        f"# Gradients: {result['device']}",
        "",
        "    python -m tests.benchmarks.training.cpu --torch PYTHON "
        "--write docs/benchmarks/training-cpu",
        "",
        f"{result['date']}, PyTorch {result['torch']}, {THREADS} threads, float32, batches of",
        f"{BATCH}. Medians of {CALLS} warm calls, in ms; PyTorch's in a process of its own. Ours",
        "are channels last, the fastest of a few configurations. PyTorch's: `aten::convolution`",
        "and of `aten::convolution_backward` for both gradients together, in the faster layout.",
        "",
        "| layer | forward | input gradient | weight gradient | sum | PyTorch's | times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for row in result["rows"]:
        ours = [row["ours"][direction]["ms"] for direction in DIRECTIONS]
        layouts = {layout: sum(found.values()) for layout, found in row["pytorch"].items()}
        layout = min(layouts, key=lambda each: layouts[each])
        ratios.append(layouts[layout] / sum(ours))
        said = " | ".join(f"{ms:.2f}" for ms in (*ours, sum(ours)))
        theirs = f"{layouts[layout]:.2f} {layout}"
        lines.append(f"| {row['layer']} | {said} | {theirs} | **{ratios[-1]:.1f}** |")
    mean = statistics.geometric_mean(ratios)
    lines += ["", f"Geometric mean {mean:.1f}, smallest {min(ratios):.1f}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""Programs as CUDA sources, of sampled configurations; needs TVM, and no GPU."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import templates
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.benchmarks.training.layers import DIRECTIONS, best_forward, layers
from tests.templates.cuda_source import source
from tests.templates.devices import H200
from tuner.build import cuda_compile

FILE = "programs.json.gz"


def write(folder: Path, samples: int, near: dict[str, list[dict[str, Any]]] | None) -> int:
    """Of ``samples`` random configurations of each template, or of the neighbours of some. Returns
    how many there are."""
    programs = [
        program
        for name, fields in layers().items()
        for direction in DIRECTIONS
        for program in _programs(name, fields | {"direction": direction}, samples, near)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    command = f"python -m tests.benchmarks.training programs FOLDER --samples {samples}"
    written = {
        "command": command + (" --near FIRST.json" if near else ""),
        "headers": cuda_compile.HEADERS,
        "options": [
            f"--gpu-architecture={cuda_compile.ARCH_SPECIFIC[H200.arch]}",
            *cuda_compile.OPTIONS,
        ],
        "programs": programs,
    }
    (folder / FILE).write_bytes(gzip.compress(json.dumps(written).encode()))
    return len(programs)


def _programs(
    name: str,
    fields: dict[str, Any],
    samples: int,
    near: dict[str, list[dict[str, Any]]] | None,
) -> Iterator[dict[str, Any]]:
    workload = DepthwiseConv2dWorkload.model_validate(fields)
    rng = np.random.default_rng(1)
    for template in templates.templates_for(workload, H200):
        space = template.space(workload, H200)
        if near is not None:
            known = near.get(f"{name} {workload.direction}", [])
            ours = [config for config in known if config["template"] == template.name]
            around = [space[i] for config in ours for i in space.neighbours(space.index(config))]
            picked = [around[i] for i in rng.permutation(len(around))[:samples]] + ours
        elif template.computes_gradients:
            picked = [space[int(i)] for i in rng.integers(len(space), size=samples)]
        else:  # its search is that of the page of limits
            best = best_forward(name)
            picked = [best] if best is not None and best in space else []
        for config in {json.dumps(each): each for each in picked}.values():
            yield _program(name, workload, template, config)


def _program(
    name: str, workload: DepthwiseConv2dWorkload, template: Any, config: dict[str, Any]
) -> dict[str, Any]:
    features = template.features(workload, config, H200)
    threads, size = int(features["threads"]), int(features["shared_bytes"])
    kernels = [("main_kernel", int(features["blocks"]), threads, size)]
    room, workspace = importlib.import_module(type(template).__module__), 0
    if hasattr(room, "work"):
        share = room.work(workload, config)
        last = 32 * share.slices
        kernels.append(("main_kernel_1", share.last_blocks, last, 4 * last))
        workspace = share.workspace
    return {
        "layer": name,
        "direction": workload.direction,
        "fields": workload.model_dump(exclude_none=True) | {"padding": workload.pads},
        "config": config,
        "source": source(template, workload, config, H200),
        "kernels": kernels,
        "workspace": workspace,
    }

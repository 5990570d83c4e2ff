"""Benchmark of launches that begin before the launch before them has ended.

python -m tests.benchmarks.early_launch --write docs/benchmarks/early-launch

Each best configuration of docs/benchmarks/h200.json whose launches may begin early is built twice:
as it is, and with launches that begin when the one before has ended. Both are timed in turns, as
CUDA graphs of 100 calls. Needs PyTorch and a GPU of compute capability 9.0 or newer.
"""

from __future__ import annotations

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import templates
from templates.kernels.launches.early_launch import LAUNCHES_WAIT
from templates.template import Template
from templates.workload import Workload
from tests.benchmarks.tuned import provenance, stated, write
from tests.tuner.small_libraries import describe
from tuner.build.compile import BuildOrder, compile_library, program_of, schedule_of
from tuner.build.parameters import workspace
from tuner.device.detect import detect
from tuner.device.device import Device
from tuner.library.load import Library, load
from tuner.process.child import Child

MODULE = "tests.benchmarks.early_launch"
BESTS = Path("docs/benchmarks/h200.json")
CALLS, SAMPLES = 100, 25
MOST_US = 400.0
"""Longer programs are left out, because 0.3 µs would not show in their times."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    from tuner.measure.versions import versions

    child = Child()
    try:
        device = child.call(detect, "cuda", timeout=60)
    finally:
        child.close()
    bests = [each for each in json.loads(BESTS.read_text())["rows"] if _is_short(each)]
    with TemporaryDirectory() as name, ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        folders = [Path(name) / str(number) for number in range(len(bests))]
        built = list(pool.map(_build, bests, [device] * len(bests), folders))
        rows = [
            _timed(best, device, folder, workspace_elements)
            for best, folder, workspace_elements in zip(bests, folders, built, strict=True)
            if workspace_elements is not None
        ]
    run = provenance(f"python -m {MODULE}", device)
    text = _page(rows, f"    {run['command']}\n\n{stated(run, versions('cuda'))}")
    if options.write:
        write(options.write, {"run": run, "rows": rows}, text)
    print(text)


def _is_short(best: dict[str, Any]) -> bool:
    return bool(best["best"]["timing"]["warm"]["median_us"] <= MOST_US)


def _workload(best: dict[str, Any]) -> Workload:
    return templates.operator(best["operator"]).workload.model_validate(best["workload"])


def _template(best: dict[str, Any], device: Device) -> Template[Any]:
    known = templates.templates_for(_workload(best), device.limits)
    return next(each for each in known if each.name == best["best"]["config"]["template"])


def _build(best: dict[str, Any], device: Device, folder: Path) -> int | None:
    """Build both libraries and return the elements of their workspace.

    Return None if the launches of the program do not begin early.
    """
    work, config = _workload(best), best["best"]["config"]
    program, workspace_elements = program_of(_template(best, device)), 0
    folder.mkdir()
    for name in ("ended", "early"):
        path = folder / f"{name}.so"
        module = schedule_of(BuildOrder(work.key, program, config, device.target, path)).mod
        if LAUNCHES_WAIT not in module["main"].attrs:
            return None
        if name == "ended":
            module["main"] = module["main"].without_attr(LAUNCHES_WAIT)
        workspace_elements = workspace(module, work)
        compile_library(module, device.target, path)
    return workspace_elements


def _timed(
    best: dict[str, Any], device: Device, folder: Path, workspace_elements: int
) -> dict[str, Any]:
    import torch

    work, config = _workload(best), best["best"]["config"]
    tensors = [
        torch.randn(each.shape, device="cuda").to(getattr(torch, each.dtype))
        for each in work.arguments
    ]
    graphs = {}
    for name in ("ended", "early"):
        path = folder / f"{name}.so"
        describe(path, work, device, _template(best, device), config, workspace_elements)
        graphs[name] = _captured(load(path), tensors)
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(SAMPLES):
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) * 1e3 / CALLS)
    return {
        "name": best["name"],
        "config": config,
        **{f"{name}_us": median(taken) for name, taken in times.items()},
    }


def _captured(library: Library, tensors: list[Any]) -> Any:
    import torch

    library(*tensors)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            library(*tensors)
    return graph


def _page(rows: list[dict[str, Any]], origin: str) -> str:
    ratios = [row["early_us"] / row["ended_us"] for row in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    lines = [
        "# Launches that begin early",
        "",
        origin,
        "",
        f"Best configurations of [h200.md](h200.md) whose warm median there is at most {MOST_US:g} "
        "µs and whose launches",
        "may begin before the launch before them has ended "
        "([decision 058](../decisions/058-early-launches.md)). Times are medians",
        f"of graphs of {CALLS} calls in µs; the two of a row were measured in turns.",
        "",
        f"Geometric mean of the ratios: {mean:.3f}; from {min(ratios):.3f} to {max(ratios):.3f}.",
        "",
        "| shape | template | after the end | early | ratio |",
        "|---|---|---|---|---|",
    ]
    for row, ratio in zip(rows, ratios, strict=True):
        lines.append(
            f"| {row['name']} | {row['config']['template']} | {row['ended_us']:.2f} | "
            f"{row['early_us']:.2f} | {ratio:.3f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""Benchmark of how a parallel kernel and PyTorch slow each other down in one process.

python -m tests.benchmarks.two_runtimes --write docs/benchmarks/two-runtimes

Each row is a process of its own: conv1d of 16384 samples and 32 taps by PyTorch, by a parallel
library of TVM's, and by both in turns; then a matrix product of 512 by PyTorch, and it in turns
with the library. Needs PyTorch and a CPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.tuned import provenance, stated, write
from tuner.library.runtime import threading_environment

MODULE = "tests.benchmarks.two_runtimes"
CALLS, SAMPLES = 20, 40
UNSET = ("TVM_NUM_THREADS", "TVM_BIND_THREADS", "TVM_THREAD_POOL_SPIN_COUNT")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--pytorchs-threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(_measured(options.measure, options.pytorchs_threads)))
        return
    from tuner.device.cpu_facts import device, threads
    from tuner.measure.versions import versions

    here, count = device(), str(threads())
    all_threads = {"TVM_NUM_THREADS": count}
    unbound = {**all_threads, "TVM_BIND_THREADS": "0"}
    with tempfile.TemporaryDirectory() as folder:
        library = _built(here, Path(folder))
        rows = {
            "PyTorch alone": _fresh("", {}),
            "TVM as it is": _fresh(library, {}),
            "on all threads": _fresh(library, all_threads),
            "and bound to none": _fresh(library, unbound),
            "and asleep soon: as libraries are loaded without PyTorch": _fresh(
                library, threading_environment(threads())
            ),
            "PyTorch's own: as libraries are loaded beside it": _fresh(
                library, threading_environment(threads()), threads()
            ),
        }
    run = provenance(f"python -m {MODULE}", here)
    result = {"run": run, "rows": rows}
    text = _page(rows, f"    {run['command']}\n\n{stated(run, versions('cpu'))}")
    if options.write:
        write(options.write, result, text)
    print(text)


def _built(here: Any, folder: Path) -> str:
    from templates import templates_for
    from templates.conv1d.workload import Conv1dWorkload
    from tuner.build.compile import BuildOrder, build, program_of

    work = Conv1dWorkload(M=16384, N=32)
    template = templates_for(work, here.limits)[0]
    config = {**template.default(work, here.limits), "tiles_per_task": 16, "threading": "parallel"}
    order = BuildOrder(work.key, program_of(template), config, here.target, folder / "parallel.so")
    built = build(order)
    assert built.status == "ok", built.error
    return str(order.library)


def _fresh(
    library: str, environment: dict[str, str], pytorchs_threads: int = 0
) -> dict[str, float | None]:
    plain = {name: text for name, text in os.environ.items() if name not in UNSET}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            MODULE,
            "--measure",
            library,
            "--pytorchs-threads",
            str(pytorchs_threads),
        ],
        env=plain | environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float | None] = json.loads(done.stdout)
    return found


def _measured(library: str, pytorchs_threads: int) -> dict[str, float | None]:
    """Return the times of one process in µs, by the columns of a row; None without a library.

    The library is loaded and timed before PyTorch, the order in which a program meets them.
    """
    import numpy as np
    import torch

    x, w = (np.random.default_rng(0).standard_normal(n).astype("float32") for n in (16384, 32))
    ours: Callable[[], Any] | None = None
    if library:
        import tvm_ffi

        from tuner.library import openmp
        from tuner.library.runtime import load_runtime

        load_runtime("cpu")
        module, y = tvm_ffi.load_module(library), np.empty(16384 + 31, np.float32)
        if pytorchs_threads:
            openmp.use_pytorchs(module, ctypes.CDLL(library), pytorchs_threads)
        main = module["main"]

        def ours() -> None:
            main(x, w, y)

    signal, taps = torch.from_numpy(x)[None, None], torch.from_numpy(w.copy())[None, None]

    def theirs() -> None:
        torch.nn.functional.conv1d(signal, taps, padding=31)

    square = torch.randn(512, 512)

    def product() -> None:
        torch.mm(square, square)

    def turns(other: Callable[[], Any]) -> float | None:
        return None if ours is None else _time(lambda: (ours(), other()))

    with torch.inference_mode():
        return {
            "library": _time(ours) if ours else None,
            "PyTorch": _time(theirs),
            "in turns": turns(theirs),
            "product": _time(product),
            "product in turns": turns(product),
        }


def _time(call: Callable[[], Any]) -> float:
    for _ in range(CALLS):
        call()
    times = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return median(times)


def _page(rows: dict[str, dict[str, float | None]], origin: str) -> str:
    lines = ["# Two runtimes in one process", "", origin, "", (__doc__ or "").split("\n\n")[2]]
    lines += [
        "",
        "| the library's threads | library, µs | PyTorch, µs | both in turns, µs | product, µs | "
        "product and library in turns, µs |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        cells = ("" if each is None else f"{each:.1f}" for each in row.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""What a user gets: a stored library loaded and called by a process that does nothing else.

python -m tests.benchmarks.delivered conv1d '{"M": 16384, "N": 32}'

Of the database of TUNER_DATABASE_URL; prints the median of the call in µs, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

SAMPLES, SAMPLE_SECONDS = 60, 3e-3


def fresh(database: str, operator: str, workload: dict[str, Any]) -> dict[str, Any]:
    """The same, of a database's best, in a process of its own."""
    import os

    command = [sys.executable, "-m", "tests.benchmarks.delivered", operator, json.dumps(workload)]
    environment = {**os.environ, "TUNER_DATABASE_URL": database}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    import numpy as np

    from tuner.client.local import Local

    operator, workload = sys.argv[1], json.loads(sys.argv[2])
    with Local() as local:
        library = local.load(local.best(operator, workload, target="cpu"))
    rng = np.random.default_rng(0)
    work = library.workload
    x, w = (
        rng.standard_normal(shape).astype(work.dtype)
        for shape in (work.input_shape, work.weight_shape)
    )
    y = np.empty(work.output_shape, work.dtype)
    library(x, w, out=y)
    start = time.perf_counter()
    library(x, w, out=y)
    calls = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - start)))
    times = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        for _ in range(calls):
            library(x, w, out=y)
        times.append((time.perf_counter() - start) / calls * 1e6)
    print(json.dumps({"call_us": median(times), "threads": library.threads}))


if __name__ == "__main__":
    main()

"""Time the call of a stored library as a user has it, in processes that do nothing else.

python -m tests.benchmarks.delivered conv1d '{"M": 16384, "N": 32}'

The workload's best on a CPU is taken from the database of TUNER_DATABASE_URL. The command measures
for a second and prints the median of the call in µs, as JSON. A page shows the median of five
processes, because another machine on the same processor can delay one for milliseconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

PROCESSES, SAMPLES, SAMPLE_SECONDS = 5, 100, 10e-3


def fresh(database: str, operator: str, workload: dict[str, Any]) -> dict[str, Any]:
    """Return the command's output for a best of ``database``. ``call_us`` is the median of
    ``PROCESSES`` processes, run one after the other, and ``calls_us`` has the time of each."""
    import os

    command = [sys.executable, "-m", "tests.benchmarks.delivered", operator, json.dumps(workload)]
    environment = {**os.environ, "TUNER_DATABASE_URL": database}
    found = [
        json.loads(
            subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
        )
        for _ in range(PROCESSES)
    ]
    times = [each["call_us"] for each in found]
    return found[0] | {"call_us": median(times), "calls_us": times}


def main() -> None:
    import numpy as np

    from templates.dtypes import in_numpy
    from tuner.client.local import Local

    operator, workload = sys.argv[1], json.loads(sys.argv[2])
    with Local() as local:
        library = local.load(local.best(operator, workload, target="cpu"))
    rng = np.random.default_rng(0)
    work = library.workload
    dtype = in_numpy(work.dtype)
    given = [rng.standard_normal(argument.shape).astype(dtype) for argument in work.inputs]
    y = np.empty(work.output.shape, dtype)
    library(*given, out=y)
    start = time.perf_counter()
    library(*given, out=y)
    calls = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - start)))
    times = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        for _ in range(calls):
            library(*given, out=y)
        times.append((time.perf_counter() - start) / calls * 1e6)
    print(json.dumps({"call_us": median(times), "threads": library.threads}))


if __name__ == "__main__":
    main()

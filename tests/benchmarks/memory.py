"""Benchmark of resident memory: the service after 1,000 requests, a worker's peak during a job.

python -m tests.benchmarks.memory --write docs/benchmarks/memory
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tuner.cli.demo import free_port, running, until_ready
from tuner.client.client import Client
from tuner.device import cpu_facts

REQUESTS = 1000
TRIALS = 64
MEGABYTE = 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    builders = int(os.environ.setdefault("TUNER_BUILD_WORKERS", "2"))
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), port, "cpu") as (service, worker),
        Client(f"http://127.0.0.1:{port}") as client,
    ):
        until_ready(client)
        job = client.submit("conv1d", M=16384, N=32, trials=TRIALS)
        worker_mb = 0.0
        while not client.job(job).ended:
            worker_mb = max(worker_mb, _resident(worker.pid))
            time.sleep(0.1)
        for n in range(REQUESTS):
            if n % 2:
                client.best("conv1d", M=16384, N=32)
            else:
                client.job(job)
        api_mb = _resident(service.pid)
    device = cpu_facts.device()
    result = {
        "command": "python -m tests.benchmarks.memory",
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "api_resident_mb": round(api_mb, 1),
        "api_requests": REQUESTS,
        "worker_and_pool_resident_mb": round(worker_mb, 1),
        "build_workers": builders,
    }
    text = (
        "# Memory\n\n"
        f"{result['device']}, {result['date']}.\n\n"
        f"    {result['command']}\n\n"
        "Resident memory, MB. A page that several processes share counts for each of them, so the "
        "worker's figure is an upper bound.\n\n"
        "| what | MB |\n|---|---|\n"
        f"| service after {REQUESTS} requests | {result['api_resident_mb']} |\n"
        f"| worker, {result['build_workers']} builders and runner, peak over a job of {TRIALS} "
        f"trials | {result['worker_and_pool_resident_mb']} |\n"
    )
    print(text)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(text)


def _resident(pid: int) -> float:
    """Return the resident megabytes of a process and its descendants, together."""
    process = psutil.Process(pid)
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / MEGABYTE


if __name__ == "__main__":
    main()

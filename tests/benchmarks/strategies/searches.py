"""Stored searches of whole spaces on a device, and their numbers of trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.strategies.replay import good_enough

FOLDER = Path(__file__).parent / "searches"


def searches() -> list[dict[str, Any]]:
    """Return all stored searches. The ``times`` of a run are those of its trials in µs, in
    order."""
    return [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]


def found_after(search: dict[str, Any], *, guided: bool) -> list[int | None]:
    """Return, for each run with this value of ``guided``, the number of trials until it was within
    5 % of the fastest time in any run. It is None for a run that ended before."""
    limit = good_enough([time for run in search["runs"] for time in run["times"]])
    return [
        next((n for n, t in enumerate(run["times"], 1) if t is not None and t <= limit), None)
        for run in search["runs"]
        if run["guided"] is guided
    ]

"""Searches of whole spaces that were made on a device, and what is told of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.strategies.replay import good_enough

FOLDER = Path(__file__).parent / "searches"


def searches() -> list[dict[str, Any]]:
    """All that are stored; ``times`` of each run are those of its trials, in order."""
    return [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]


def found_after(search: dict[str, Any], *, guided: bool) -> list[int | None]:
    """For each run, after how many trials it was within 5 % of the fastest that any run of these
    has seen; None if it ended before."""
    limit = good_enough([time for run in search["runs"] for time in run["times"]])
    return [
        next((n for n, t in enumerate(run["times"], 1) if t is not None and t <= limit), None)
        for run in search["runs"]
        if run["guided"] is guided
    ]

"""The workloads of a model from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tuner.errors import UnusableFile

_FORM = (
    'write a list as POST /models takes it: [{"operator": "conv1d", '
    '"workload": {"M": 16384, "N": 32}, "calls": 3}]'
)


def read_workloads(path: Path) -> list[dict[str, Any]]:
    """What is listed, of which nothing is checked yet. Raises UnusableFile."""
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise UnusableFile(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UnusableFile(path, f"is no JSON: {error}; {_FORM}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UnusableFile(path, f"is no list of workloads; {_FORM}")
    return found

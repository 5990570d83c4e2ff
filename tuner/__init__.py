"""How workloads are tuned: search, builds, measurement, worker, command line and Python client."""

from importlib.util import find_spec
from pathlib import Path

__version__ = "0.1.0"

for _name, _part in ("db", "contract"), ("templates", "workload.py"):
    _found = find_spec(_name)
    if _found and _found.origin and not (Path(_found.origin).parent / _part).exists():
        raise ImportError(f"{_found.origin} hides convtune's package {_name}; give it another name")

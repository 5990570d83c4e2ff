"""How workloads are tuned: search, builds, measurement, worker, command line and Python client."""

from importlib.machinery import PathFinder
from importlib.util import find_spec

__version__ = "0.1.0"

for _name, _part in ("db", "contract"), ("templates", "workload"):
    _found = find_spec(_name)
    if _found and _found.origin:
        _inside = _found.submodule_search_locations or []  # None would mean all of sys.path
        if not PathFinder.find_spec(f"{_name}.{_part}", _inside):
            raise ImportError(
                f"{_found.origin} hides convtune's package {_name}; give it another name"
            )

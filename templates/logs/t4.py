"""Shapes from results in the T4 format, as Kernel Tuner writes it.

The format names configurations of a kernel, but not what the kernel computes. So a result can be
used only if it also names an operator and a workload, as this project's results do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from templates import operators
from templates.errors import InvalidRecords, RecordFault
from templates.logs.log import Log, NotExpressible, Shape, Target, log_of_shapes
from templates.logs.shapes import workload_of
from templates.spaces.knob import quoted

NAME = "Kernel Tuner's T4 results"
TAKES = "results that name an operator and its workload, as this project's do,"


def read(content: bytes) -> Log:
    """Read the results' shapes.

    Raise InvalidRecords if no shape can be imported. Its message says which results can be.
    """
    try:
        results = json.loads(content)["results"]
    except (ValueError, RecursionError, TypeError, KeyError):
        results = None
    if not isinstance(results, list):
        message = f"is not a complete JSON document of {NAME}"
        raise InvalidRecords([RecordFault(1, "log", message)])
    return log_of_shapes(NAME, TAKES, _records(results))


def _records(results: list[Any]) -> Iterator[tuple[int, Shape | NotExpressible]]:
    for number, result in enumerate(results, 1):
        try:
            yield number, _shape(result)
        except NotExpressible as reason:
            yield number, reason


def _shape(result: Any) -> Shape:
    if not isinstance(result, dict):
        raise NotExpressible("is not a JSON object")
    name, fields, target = (result.get(key) for key in ("operator", "workload", "target"))
    if name is None or fields is None:
        raise NotExpressible("names no operator and workload, only a configuration of a kernel")
    if name not in [each.name for each in operators()]:
        raise NotExpressible(f"{quoted(name)} is not an operator here")
    kind: Target = target if target in ("cpu", "cuda") else "auto"
    return Shape(workload_of(name, fields), kind)

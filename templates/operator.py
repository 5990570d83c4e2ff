"""Operator: what can be tuned, declared in one place."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from templates.workload import Later, Workload

if TYPE_CHECKING:
    from templates.rung import Rung
    from templates.template import Template


@dataclass(frozen=True)
class Operator:
    """Declared in the ``__init__`` of its package ``templates.<name>``: the model of its workloads,
    a line that says what it computes, and the fields of a workload to show it by.

    Its package has the rest, imported when it is asked for: whoever asks what a shape may be, as a
    shell that completes a line does, need not wait for it.

    - ``catalogue``: ``TEMPLATES``
    - ``reference``: ``reference(workload, *given)``, its value in float64; a tuple of several
    - ``ladder``: ``RUNGS``; its module ``baseline`` has the program nobody has scheduled
    """

    workload: type[Workload]
    summary: str
    example: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.workload.operator

    @cached_property
    def unsaid(self) -> dict[str, Any]:
        """The defaults of the fields that a stored workload may lack, as they came later."""
        fields = self.workload.model_fields.items()
        return {name: field.default for name, field in fields if Later() in field.metadata}

    @cached_property
    def templates(self) -> tuple[Template[Any], ...]:
        found: tuple[Template[Any], ...] = self._module("catalogue").TEMPLATES
        return found

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        found: tuple[Rung, ...] = self._module("ladder").RUNGS
        return found

    @cached_property
    def reference(self) -> Callable[..., Any]:
        found: Callable[..., Any] = self._module("reference").reference
        return found

    def references(self, workload: Workload, *given: Any) -> dict[str, Any]:
        """The values in float64 by the outputs' names."""
        found = self.reference(workload, *given)
        values = found if isinstance(found, tuple) else (found,)
        outputs = workload.outputs
        return {output.name: each for output, each in zip(outputs, values, strict=True)}

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"templates.{self.name}.{name}")

"""Operator: what can be tuned, declared in one place."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from templates.workload import AddedLater, Workload

if TYPE_CHECKING:
    from templates.rung import Rung
    from templates.template import Template


@dataclass(frozen=True)
class Operator:
    """An operator, declared in the ``__init__`` of its package ``templates.<name>``.

    ``workload`` is the model of its workloads, ``summary`` a line that says what it computes, and
    ``example`` the fields of an example workload.

    The package's other modules are imported when they are first needed. So the completion of a
    command line, which needs only the fields of a shape, does not wait for them:

    - ``catalogue`` has ``TEMPLATES``
    - ``reference`` has ``reference(workload, *given)``, the exact output in float64, or a tuple of
      outputs if there are several
    - ``ladder`` has ``RUNGS``, and its module ``baseline`` the naive program
    """

    workload: type[Workload]
    summary: str
    example: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.workload.operator

    @cached_property
    def defaults_of_added_fields(self) -> dict[str, Any]:
        """Return the defaults of the fields that were added later: a stored key may lack them."""
        fields = self.workload.model_fields.items()
        return {name: field.default for name, field in fields if AddedLater() in field.metadata}

    @cached_property
    def templates(self) -> tuple[Template[Any], ...]:
        """Return the operator's templates, for all kinds of device."""
        found: tuple[Template[Any], ...] = self._module("catalogue").TEMPLATES
        return found

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        """Return the operator's ladder."""
        found: tuple[Rung, ...] = self._module("ladder").RUNGS
        return found

    @cached_property
    def reference(self) -> Callable[..., Any]:
        """Return the function that computes the exact outputs."""
        found: Callable[..., Any] = self._module("reference").reference
        return found

    def references(self, workload: Workload, *given: Any) -> dict[str, Any]:
        """Return the exact outputs in float64 by argument name.

        ``given`` are the arguments that are read, in the workload's order.
        """
        found = self.reference(workload, *given)
        values = found if isinstance(found, tuple) else (found,)
        outputs = workload.outputs
        return {output.name: each for output, each in zip(outputs, values, strict=True)}

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"templates.{self.name}.{name}")

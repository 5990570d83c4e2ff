"""Rung: one step of a seed document's ladder, as a program that can be built by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from templates.template import Template
from templates.workload import Workload


@dataclass(frozen=True)
class Document:
    """A seed document, by its number.

    ``workload`` is the shape of its figures. If it gives no figures, ``workload`` is the shape on
    which its rungs are measured here. ``peers_t4_us`` are the times of other libraries that it
    reports, in µs on its T4.
    """

    number: str
    title: str
    workload: Workload
    peers_t4_us: Mapping[str, float] = field(default_factory=dict)

    def rung(
        self, name: str, adds: str, t4_us: float | None = None, every_input: bool = False
    ) -> Rung:
        """Return the rung whose program is the function of this ``name`` in the document's module.

        The module is ``seed_<number>`` of the operator's ladder. A "=" in the name is "_" there.
        """
        room = f"templates.{self.workload.operator}.ladder.seed_{self.number}"
        program = f"{room}:{name.replace('=', '_')}"
        return Rung(f"{self.number} {name}", self, adds, program, t4_us, every_input)


@dataclass(frozen=True)
class Rung:
    """One step of a ladder.

    ``program`` is ``module:function``, a function of (workload, kind of target). If ``trials`` is
    not 0, it is ``module:Class`` of a template instead, and the rung is the best of that many
    configurations found by the usual search. ``adds`` says what the rung adds to the one before.
    ``t4_us`` is the time in µs that the document reports for its own program on a T4 and its own
    shape; None if it gives no figure.
    """

    name: str
    document: Document
    adds: str
    program: str
    t4_us: float | None = None
    every_input: bool = False
    """Whether each output's sum runs over all positions of the input instead of over the taps."""
    trials: int = 0

    def steps(self, workload: Workload) -> int:
        """Return the multiply-adds of one call, including those that a guard skips."""
        taps = (
            workload.inputs[0].shape[0] + workload.taps - 1 if self.every_input else workload.taps
        )
        return taps * workload.output.elements

    def schedule(self, workload: Workload, kind: str) -> Any:
        """Return the program as a ``tvm.s_tir.Schedule`` of the workload's arguments.

        ``kind`` is "cuda" or a CPU's kind of target. Imports TVM.
        """
        return self._named()(workload, kind)

    def template(self) -> Template[Any]:
        """Return the template that is searched. Call it only if ``trials`` is not 0."""
        template: Template[Any] = self._named()()
        return template

    def _named(self) -> Any:
        module, name = self.program.split(":")
        return getattr(importlib.import_module(module), name)

"""Rung: one step of a seed document's climb, as a program of ours that can be built by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from templates.template import Template
from templates.workload import Workload


@dataclass(frozen=True)
class Document:
    """A seed document, by its number; ``workload`` is the shape its figures are for (where it
    gives none, the one we climb it on), ``peers_t4_us`` what else it measured on its T4, µs."""

    number: str
    title: str
    workload: Workload
    peers_t4_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rung:
    """``program`` is ``module:function`` of (workload, kind of target); where there are ``trials``
    it is a template's class, and the rung is the best of so many of its configurations, found by
    the usual search. ``adds`` says what it adds to the rung before. ``t4_us`` is what the document
    measured of its own program, on a T4 and its own shape; None if it gives no figure."""

    name: str
    document: Document
    adds: str
    program: str
    t4_us: float | None = None
    every_input: bool = False
    """Whether an output's sum runs over all positions of the input, not over its taps."""
    trials: int = 0

    def steps(self, workload: Workload) -> int:
        """Multiply-adds of one call, guarded ones too."""
        taps = workload.given[0].shape[0] + workload.taps - 1 if self.every_input else workload.taps
        return taps * workload.output.elements

    def schedule(self, workload: Workload, kind: str) -> Any:
        """Its program for a kind of target ("cuda" or a CPU's), a ``tvm.s_tir.Schedule`` of
        the workload's arguments. Imports TVM."""
        return self._named()(workload, kind)

    def template(self) -> Template[Any]:
        """What is searched, if there are trials."""
        template: Template[Any] = self._named()()
        return template

    def _named(self) -> Any:
        module, name = self.program.split(":")
        return getattr(importlib.import_module(module), name)

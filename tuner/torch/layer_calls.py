"""Records by which a module tells whether a layer has already computed it for a tensor."""

from __future__ import annotations

import itertools
import secrets
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from torch._guards import TracingContext

MARK = "_convtune_computed_by"
_numbers = itertools.count(secrets.randbits(62))  # random: another process's tensors may come here


def calls_of(modules: Sequence[int]) -> Calls:
    """Return a record of the calls of a layer that computes these modules, given by their ids."""
    return Calls(next(_numbers), modules, [])


class Calls(threading.local):
    """The calls of a layer, in each thread, whose output is still on its way through ``modules``.

    A module may also be part of another model, or be called by itself. So it must tell whether it
    is given an output of the layer. Such an output has a mark until it has passed the last module.
    A copy of the output has no mark, but it is the first tensor that the module is given after the
    layer's call.

    All threads share ``mark`` and ``unfinished``. For each graph that calls the layer but not all
    modules after it, ``unfinished`` has the modules that are missing.
    """

    def __init__(self, mark: int, modules: Sequence[int], unfinished: list[set[int]]) -> None:
        self._mark, self._modules, self._unfinished = mark, modules, unfinished
        self._awaiting: set[int] = set()
        self._in_graph: set[int] = set()
        self._alone_in_graph: set[int] = set()
        self._graph: Any = _none

    def announce(self, output: Any) -> None:
        """Note that the modules come next, and that this output is for them."""
        if self._modules:  # there are none if the layer only leaves out what the model cuts off
            self._awaiting = set(self._modules)
            setattr(output, MARK, self._mark)

    def announce_alone(self) -> None:
        """Note that the modules compute themselves, because the layer computed the convolution."""
        self._awaiting = set()

    def comes_next(self, module: int, given: Any) -> bool:
        """Return whether the module is given an output that was computed for it."""
        awaited = module in self._awaiting
        self._awaiting.discard(module)
        if getattr(given, MARK, None) != self._mark:
            return awaited
        if module == self._modules[-1]:
            delattr(given, MARK)
        return True

    def announce_in_graph(self, alone: bool) -> None:
        """Note for the graph that is being made that the modules come next. They pass the output
        on, or compute themselves if the layer computes the convolution ``alone``."""
        graph = TracingContext.try_get()
        self._graph = _none if graph is None else weakref.ref(graph)
        self._in_graph, self._alone_in_graph = set(), set()
        if alone:
            self._alone_in_graph = set(self._modules)
        elif self._modules:
            self._in_graph = set(self._modules)
            self._unfinished.append(self._in_graph)

    def comes_next_in_graph(self, module: int) -> bool | None:
        """Return whether the module is given an output that was computed for it, in the graph that
        is being made. Return None if the layer is called in another graph or in none, if at all."""
        if self._graph() is not TracingContext.try_get():
            return None
        if module in self._alone_in_graph:
            self._alone_in_graph.discard(module)
            return False
        if module not in self._in_graph:
            return None
        self._in_graph.discard(module)
        if not self._in_graph:
            self._unfinished[:] = [each for each in self._unfinished if each]
        return True

    def leave_graph(self, output: Any) -> None:
        """Mark a graph's output if the next modules may be in another graph or in none."""
        if self._unfinished:
            setattr(output, MARK, self._mark)


def _none() -> None:
    """Return None, as a weak reference does if its object is gone."""

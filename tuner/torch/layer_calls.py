"""Records by which a module tells whether a layer has already computed it for a tensor."""

from __future__ import annotations

import itertools
import secrets
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import TracingContext

MARK = "_convtune_computed_by"
_numbers = itertools.count(secrets.randbits(62))  # random: another process's tensors may come here


def calls_of(modules: Sequence[int]) -> Calls:
    """Return a record of the calls of a layer that computes these modules, given by their ids."""
    return Calls(next(_numbers), modules, [])


class Calls(threading.local):
    """The calls of a layer, in each thread, whose output is still on its way through ``modules``.

    A module may also be part of another model, or be called by itself. So it must tell whether it
    is given an output of the layer. Such an output and its views have a mark, until one of them has
    passed the last module. A copy of the output has no mark, but it is the first tensor that the
    module is given after the layer's call.

    All threads share ``mark`` and ``unfinished``. For each graph that calls the layer more often
    than the modules after it, ``unfinished`` has the numbers of calls that are missing, by module.
    """

    def __init__(self, mark: int, modules: Sequence[int], unfinished: list[Counter[int]]) -> None:
        self._mark, self._modules, self._unfinished = mark, modules, unfinished
        self._awaiting: set[int] = set()
        self._in_graph: Counter[int] = Counter()
        self._alone_in_graph: Counter[int] = Counter()
        self._graph: Any = _none

    def announce(self, output: Any) -> None:
        """Note that the modules come next, and that this output is for them."""
        if self._modules:  # there are none if the layer only leaves out what the model cuts off
            self._awaiting = set(self._modules)
            setattr(_shared_by_views(output), MARK, self._mark)

    def announce_alone(self) -> None:
        """Note that the modules compute themselves, because the layer computed the convolution."""
        self._awaiting = set()

    def comes_next(self, module: int, given: Any) -> bool:
        """Return whether the module is given an output that was computed for it."""
        awaited = module in self._awaiting
        self._awaiting.discard(module)
        marked = _shared_by_views(given)
        if getattr(marked, MARK, None) != self._mark:
            return awaited
        if module == self._modules[-1]:
            delattr(marked, MARK)
        return True

    def announce_in_graph(self, alone: bool) -> None:
        """Note for the graph that is being made that the modules come next. They pass the output
        on, or compute themselves if the layer computes the convolution ``alone``."""
        graph = TracingContext.try_get()
        if graph is None or self._graph() is not graph:
            self._graph = _none if graph is None else weakref.ref(graph)
            self._in_graph, self._alone_in_graph = Counter(), Counter()
        if alone:
            self._alone_in_graph.update(self._modules)
        elif self._modules:
            if not self._in_graph.total():
                self._unfinished.append(self._in_graph)
            self._in_graph.update(self._modules)

    def comes_next_in_graph(self, module: int) -> bool | None:
        """Return whether the module is given an output that was computed for it, in the graph that
        is being made. Return None if the layer is called in another graph or in none, if at all."""
        if self._graph() is not TracingContext.try_get():
            return None
        if self._alone_in_graph[module]:
            self._alone_in_graph[module] -= 1
            return False
        if not self._in_graph[module]:
            return None
        self._in_graph[module] -= 1
        if not self._in_graph.total():
            self._unfinished[:] = [each for each in self._unfinished if each.total()]
        return True

    def leave_graph(self, output: Any) -> None:
        """Mark a graph's output if the next modules may be in another graph or in none."""
        if self._unfinished:
            setattr(_shared_by_views(output), MARK, self._mark)


def _shared_by_views(tensor: Any) -> Any:
    """Return what a tensor shares with its views, which have no attributes of it: its storage.
    Tensors without one, such as those of ``torch.func``, are returned themselves."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        return tensor


def _none() -> None:
    """Return None, as a weak reference does if its object is gone."""

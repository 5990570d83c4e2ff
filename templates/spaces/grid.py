"""Blocks and threads of a GPU, and what stands for them on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

MAX_GRID_Y = 65_535


class Grid:
    """Binds a schedule's loops for a kind of target. On CUDA blocks and threads; on a CPU the
    blocks are one parallel loop, and each thread of a block is a turn of an inner loop."""

    def __init__(self, sch: Schedule, kind: str) -> None:
        self._sch, self.cuda = sch, kind == "cuda"

    @property
    def shared(self) -> str:
        """Scope of what the threads of a block share."""
        return "shared" if self.cuda else "global"

    def blocks(self, x: Any, y: Any = None) -> Any:
        """Neighbouring loops, outermost first. A loop too long for the grid's second axis takes
        the third as well. The innermost loop that was bound."""
        sch = self._sch
        if not self.cuda:
            outer = x if y is None else sch.fuse(x, y, preserve_unit_iters=True)
            sch.parallel(outer)
            return outer
        sch.bind(x, "blockIdx.x")
        if y is None:
            return x
        if int(sch.get(y).extent) > MAX_GRID_Y:
            z, y = sch.split(y, [None, MAX_GRID_Y])
            sch.bind(z, "blockIdx.z")
        sch.bind(y, "blockIdx.y")
        return y

    def threads(self, x: Any, y: Any = None) -> None:
        """The loops of a block's threads, neighbours along ``x``."""
        if not self.cuda:
            return
        self._sch.bind(x, "threadIdx.x")
        if y is not None:
            self._sch.bind(y, "threadIdx.y")

    def stage(self, stage: Any, loop: Any, threads: tuple[int, ...]) -> None:
        """Compute a 1-D stage at a loop for the whole block, its threads (along y and x, or x)
        working together."""
        sch = self._sch
        # the scope first: it decides whether a stage covers one thread's region or the block's
        sch.set_scope(stage, 0, self.shared)
        sch.compute_at(stage, loop, preserve_unit_loops=True)
        if self.cuda:
            *_, inner = sch.get_loops(stage)
            _, *bound = sch.split(inner, [None, *threads], preserve_unit_iters=True)
            self.threads(*reversed(bound))


def frames(kind: str) -> tuple[Callable[[int], Any], Callable[..., Any], str]:
    """For programs written in TVMScript: the loop over blocks, the loop over a block's threads
    (given their number, and ``"y"`` for those along the second axis), and the scope of what they
    share."""
    if kind == "cuda":
        return (
            lambda extent: T.thread_binding(extent, thread="blockIdx.x"),
            lambda extent, axis="x": T.thread_binding(extent, thread=f"threadIdx.{axis}"),
            "shared",
        )
    return T.parallel, lambda extent, axis="x": T.serial(extent), "global"

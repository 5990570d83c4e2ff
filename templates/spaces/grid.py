"""Loops of blocks and threads: bound on a GPU, parallel or serial on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

MAX_GRID_Y = 65_535


class Grid:
    """Binder of a schedule's loops for a kind of target.

    On CUDA loops become blocks and threads. On a CPU the blocks are one parallel loop, and the
    threads of a block stay loops inside it.
    """

    def __init__(self, sch: Schedule, kind: str) -> None:
        self._sch, self.cuda = sch, kind == "cuda"

    @property
    def shared(self) -> str:
        """Return the memory scope of data that the threads of a block share."""
        return "shared" if self.cuda else "global"

    def blocks(self, x: Any, y: Any = None) -> Any:
        """Bind one or two neighbouring loops to blocks; return the innermost loop that was bound.

        If there are two, ``x`` is the outer one. A loop ``y`` too long for the grid's second axis
        is split over the third axis as well.
        """
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
        """Bind the loops of a block's threads. Neighbouring threads are neighbours along ``x``."""
        if not self.cuda:
            return
        self._sch.bind(x, "threadIdx.x")
        if y is not None:
            self._sch.bind(y, "threadIdx.y")

    def stage(self, stage: Any, loop: Any, threads: tuple[int, ...]) -> None:
        """Compute a one-dimensional stage at a loop, by all threads of a block together.

        ``threads`` is the block's extent along (y, x) or (x,).
        """
        sch = self._sch
        # The scope first: it decides whether the stage covers one thread's region or the block's.
        sch.set_scope(stage, 0, self.shared)
        sch.compute_at(stage, loop, preserve_unit_loops=True)
        if self.cuda:
            *_, inner = sch.get_loops(stage)
            _, *bound = sch.split(inner, [None, *threads], preserve_unit_iters=True)
            self.threads(*reversed(bound))


def frames(kind: str) -> tuple[Callable[[int], Any], Callable[..., Any], str]:
    """Return the loop frames and the memory scope for a program that is written in TVMScript.

    They are the loop over blocks, the loop over a block's threads (called with their number, and
    with ``"y"`` for the second axis), and the scope of data that the threads share.
    """
    if kind == "cuda":
        return (
            lambda extent: T.thread_binding(extent, thread="blockIdx.x"),
            lambda extent, axis="x": T.thread_binding(extent, thread=f"threadIdx.{axis}"),
            "shared",
        )
    return T.parallel, lambda extent, axis="x": T.serial(extent), "global"

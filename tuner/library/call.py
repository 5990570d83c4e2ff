"""The call of a library, as source code that is generated for its arguments.

A call takes some two microseconds. Loops over the arguments would lengthen it by a quarter, so its
source is written out for their names, as ``collections.namedtuple`` does for its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tuner.library.tensors import WHOLE, at_once
from tuner.library.torch_transforms import active

_SOURCE = """
def call(self, {given}, out=None, *, cast=False):
    if cast:
        {given}, = self._cast({given})
    if out is None:
        out = self._fresh({first})
    {unpacked}
    arguments = {given}, {outs}
    # most calls are of arrays with their own memory: to be asked in a function costs a third
    if not (
        {types} is ARRAY
        and {flags} & WHOLE == WHOLE
        and {others}
    ):
        arguments = at_once(arguments, {count}, self._bytes, plain_and_apart)
    if arguments is not None:
        try:  # the library checks shapes, types and devices in a tenth of the time
            self._run(*arguments)
            return out
        except (TypeError, ValueError, RuntimeError, BufferError):
            pass  # what follows says what is wrong, if it is the arguments
    self._run(*self._viewed({given}, {outs}))
    return out


def plain_and_apart(torch, arguments, sizes):
    {given}, {outs} = arguments
    # of such tensors PyTorch need know nothing, and no other shares an output's memory
    if not ({types} is torch.Tensor):
        return False
    if {grads} or {negated} or active(torch):
        return False
    try:
        {starts}
        return {apart}
    except RuntimeError:  # of a sparse tensor, say, which has no such pointer
        return False
"""


@cache
def call(names: tuple[str, ...], outputs: tuple[str, ...]) -> Callable[..., Any]:
    """Return a ``__call__`` for inputs and outputs of these names.

    It takes the inputs by position or by name, then ``out``, which is a tuple of arrays if there
    are several outputs, and ``cast``.
    """
    outs = ("out",) if len(outputs) == 1 else outputs
    every = (*names, *outs)
    last = range(len(names), len(every))
    pairs = [(written, at) for written in last for at in range(written)]
    source = _SOURCE.format(
        given=", ".join(names),
        first=names[0],
        outs=", ".join(outs),
        count=len(outs),
        unpacked="" if len(outs) == 1 else f"{', '.join(outs)} = out = self._unpacked(out)",
        types=" is ".join(f"type({name})" for name in every),
        flags=" & ".join(f"{name}.flags.num" for name in every),
        others=" and ".join(f"{every[written]} is not {every[at]}" for written, at in pairs),
        grads=" or ".join(f"{name}.requires_grad" for name in every),
        negated=" or ".join(f"{name}.is_neg()" for name in every),
        starts="; ".join(
            f"start_{n} = {every[n]}.data_ptr(); end_{n} = start_{n} + sizes[{n}]" for n in last
        ),
        apart=" and ".join(
            f"not start_{written} - sizes[{at}] < {every[at]}.data_ptr() < end_{written}"
            for written, at in pairs
        ),
    )
    known: dict[str, Any] = {
        "ARRAY": np.ndarray, "WHOLE": WHOLE, "active": active, "at_once": at_once,
    }  # fmt: skip
    exec(compile(source, "<call of a library>", "exec"), known)  # noqa: S102  # by our own names
    made: Callable[..., Any] = known["call"]
    made.__name__, made.__qualname__ = "__call__", "Library.__call__"
    return made

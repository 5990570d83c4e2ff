"""The call of a library, written out for its arguments.

It takes some two microseconds, which loops over the arguments would lengthen by a quarter. So its
source is made for their names, as ``collections.namedtuple`` makes its own.
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
    arguments = {given}, out
    # most calls are of arrays with their own memory: to be asked in a function costs a third
    if not (
        {types} is type(out) is ARRAY
        and {flags} & out.flags.num & WHOLE == WHOLE
        and {others}
    ):
        arguments = at_once(arguments, self._bytes, plain_and_apart)
    if arguments is not None:
        try:  # the library checks shapes, types and devices in a tenth of the time
            self._run(*arguments)
            return out
        except (TypeError, ValueError, RuntimeError, BufferError):
            pass  # what follows says what is wrong, if it is the arguments
    self._run(*self._viewed({given}, out))
    return out


def plain_and_apart(torch, arguments, sizes):
    {given}, out = arguments
    # of such tensors PyTorch need know nothing, and no other shares the output's memory
    if not ({types} is type(out) is torch.Tensor):
        return False
    if {grads} or out.requires_grad or {negated} or out.is_neg() or active(torch):
        return False
    try:
        start = out.data_ptr()
        end = start + sizes[-1]
        return {apart}
    except RuntimeError:  # of a sparse tensor, say, which has no such pointer
        return False
"""


@cache
def call(names: tuple[str, ...]) -> Callable[..., Any]:
    """A method that takes arrays by these names or by position, then ``out``."""
    source = _SOURCE.format(
        given=", ".join(names),
        first=names[0],
        types=" is ".join(f"type({name})" for name in names),
        flags=" & ".join(f"{name}.flags.num" for name in names),
        others=" and ".join(f"out is not {name}" for name in names),
        grads=" or ".join(f"{name}.requires_grad" for name in names),
        negated=" or ".join(f"{name}.is_neg()" for name in names),
        apart=" and ".join(
            f"not start - sizes[{at}] < {name}.data_ptr() < end" for at, name in enumerate(names)
        ),
    )
    known: dict[str, Any] = {
        "ARRAY": np.ndarray, "WHOLE": WHOLE, "active": active, "at_once": at_once,
    }  # fmt: skip
    exec(compile(source, "<call of a library>", "exec"), known)  # noqa: S102  # by our own names
    made: Callable[..., Any] = known["call"]
    made.__name__, made.__qualname__ = "__call__", "Library.__call__"
    return made

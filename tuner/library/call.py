"""The call of a library, as source code that is generated for its arguments.

A call takes some two microseconds. Loops over the arguments would lengthen it by a quarter, so its
source is written out for their names, as ``collections.namedtuple`` does for its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tuner.library.tensors import OWNED_FLAGS, fast_arguments
from tuner.library.torch_transforms import is_recording

_SOURCE = """
def call(self, {given}, out=None, *, cast=False):
    if cast:
        {given}, = self._cast({given})
    if out is None:
        out = self._new_outputs({first})
    {unpacked}
    arguments = {given}, {outs}
    try:  # the library checks shapes, dtypes and devices itself, in a tenth of the time
        # Most calls are on NumPy arrays that own their memory. This condition is written out,
        # because to call a function for it would make the call a third longer.
        if not (
            {types} is ARRAY
            and {flags} & OWNED_FLAGS == OWNED_FLAGS
            and {others}
        ):
            arguments = fast_arguments(arguments, {count}, self._bytes, plain_and_apart)
        if arguments is not None:
            self._run(*arguments)
            return out
    except (TypeError, ValueError, RuntimeError, BufferError):
        pass  # if an argument is at fault, the checks below raise an error that names it
    self._run(*self._checked_views({given}, {outs}))
    return out


def plain_and_apart(torch, arguments, sizes):
    {given}, {outs} = arguments
    # Return whether all are plain tensors whose call PyTorch need not record, and no output shares
    # memory with another argument.
    if not ({types} is torch.Tensor):
        return False
    if {grads} or {negated} or is_recording(torch):
        return False
    try:
        {starts}
        return {apart}
    except RuntimeError:  # for example, a sparse tensor has no pointer to its data
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
        unpacked="" if len(outs) == 1 else f"{', '.join(outs)} = out = self._unpack_outputs(out)",
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
        "ARRAY": np.ndarray,
        "OWNED_FLAGS": OWNED_FLAGS,
        "fast_arguments": fast_arguments,
        "is_recording": is_recording,
    }
    exec(compile(source, "<call of a library>", "exec"), known)  # noqa: S102  # by our own names
    made: Callable[..., Any] = known["call"]
    made.__name__, made.__qualname__ = "__call__", "Library.__call__"
    return made

"""Maps by which CUDA's tensor copies (``tensor_copies.cu``) find a box of a tensor. Imports TVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm.tirx.script.builder import ir

from templates.argument import Argument
from templates.dtypes import BYTES_PER_ELEMENT

ALIGNED = "aligned_for_a_map"
"""The C function, in each library, that rounds a pointer down to an address that is aligned as a
mapped tensor has to be."""
ALIGNMENT = 1024  # bytes of shared memory after which any swizzle repeats
SWIZZLES = {32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle, by the bytes of a box's last axis
LINE = 2  # CUtensorMapL2promotion: a line of 128 bytes is fetched into the L2 cache


@dataclass(frozen=True)
class TensorMap:
    """A map of the argument ``symbol`` for copies of a ``box``.

    ``box`` is the number of elements that are copied along each axis of the argument. Those along
    the last axis take 32, 64 or 128 bytes.
    """

    symbol: str
    box: tuple[int, ...]


def encode(each: TensorMap, argument: Argument, pointer: Any) -> Any:
    """Make a map on the host, before the launches that take it. Return its address there.

    ``pointer`` is the argument's. If it is not aligned to 16 bytes, the mapped memory begins at the
    aligned address before it, and a kernel must not use the map.
    """
    size = BYTES_PER_ELEMENT[argument.dtype]
    extents, box = argument.shape[::-1], each.box[::-1]
    strides, bytes_ = [], size
    for extent in extents[:-1]:
        strides.append(bytes_ := bytes_ * extent)
    made = tvm.tirx.Var(f"{each.symbol}_map", ir.handle("tensormap").ty)
    ir.Bind(ir.tvm_stack_alloca("tensormap", 1), var=made)
    ir.evaluate(
        ir.tensormap_encode_tiled(
            made,
            ir.call_extern("handle", ALIGNED, pointer),
            *extents,
            *strides,
            *box,
            *(1 for _ in box),
            descriptor_dtype=argument.dtype,
            rank=len(box),
            swizzle=SWIZZLES[box[0] * size],
            l2_promotion=LINE,
        )
    )
    return ir.address_of(made)

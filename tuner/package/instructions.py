"""The kind of processor and the instruction sets that a compiled library needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_OF_VECTORS = re.compile(r"avx\w*|fma|f16c|bmi2?|gfni")
_X86 = 62
"""ELF's ``e_machine`` for x86-64."""


def machine(library: bytes) -> int:
    """Return ``e_machine`` of an ELF library: the kind of processor that it is for."""
    return int.from_bytes(library[18:20], "little")


def instructions(library: bytes, target: Mapping[str, Any]) -> list[str] | None:
    """Return the vector extensions since AVX that a library compiled for a target may use, in
    LLVM's spelling: AVX, AVX2, AVX-512, FMA, F16C, BMI, GFNI.

    Return None for other processors than x86-64, because a package can't tell what they have."""
    return list(_features(json.dumps(target))) if machine(library) == _X86 else None


@cache
def _features(target: str) -> tuple[str, ...]:
    from tvm.target import Target, codegen

    found = codegen.llvm_get_cpu_features(Target(json.loads(target)))
    return tuple(sorted(name for name in found if _OF_VECTORS.fullmatch(name)))

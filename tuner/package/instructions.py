"""Which instructions of a CPU a compiled library may use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_OF_VECTORS = re.compile(r"avx\w*|fma|f16c|bmi2?|gfni")
_X86 = 62
"""e_machine of the ELF format."""


def machine(library: bytes) -> int:
    """The processors that an ELF library is for."""
    return int.from_bytes(library[18:20], "little")


def instructions(library: bytes, target: Mapping[str, Any]) -> list[str] | None:
    """Those beyond the oldest processor's, as LLVM spells them. None if a process could not tell
    whether its processor has them."""
    return list(_features(json.dumps(target))) if machine(library) == _X86 else None


@cache
def _features(target: str) -> tuple[str, ...]:
    from tvm.target import Target, codegen

    found = codegen.llvm_get_cpu_features(Target(json.loads(target)))
    return tuple(sorted(name for name in found if _OF_VECTORS.fullmatch(name)))

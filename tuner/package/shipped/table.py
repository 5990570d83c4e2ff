"""What is in the package: the calls for which it has kernels, and on what they run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

FOLDER = Path(__file__).parent
METADATA: dict[str, Any] = json.loads((FOLDER / "metadata.json").read_text())
ID: str = METADATA["id"]


class Call(NamedTuple):
    """All that a kernel depends on. Shapes are PyTorch's, (B, C, …) and (F, C / groups, …), and
    ``padding`` the zeros before each axis, then those behind each."""

    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    flipped: bool
    channels_last: bool
    dtype: str
    bias: bool
    residual: bool
    activation: str

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Call:
        read: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
        }
        return cls(**read)


class Kernel(NamedTuple):
    """``file`` is its name in the folder ``kernels``, without a suffix. ``instructions`` are those
    that a CPU must have; None if only the very CPU is known to run it. ``error`` is what the
    workload allows of max|y - ref| / max|ref|."""

    file: str
    call: Call
    kind: str
    device: str
    arch: str
    instructions: tuple[str, ...] | None
    threads: int | None
    error: float
    time_us: float

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Kernel:
        needed = fields["instructions"]
        made = {"call": Call.of(fields["call"]), "instructions": needed and tuple(needed)}
        return cls(**{**fields, **made})


KERNELS = [Kernel.of(fields) for fields in json.loads((FOLDER / "kernels.json").read_text())]
_by_call: dict[Call, list[Kernel]] = {}
for _kernel in KERNELS:
    _by_call.setdefault(_kernel.call, []).append(_kernel)


def find(call: Call, device: torch.device) -> Kernel | None:
    """The kernel for that call there, that of the very device before others that it can run."""
    found = [kernel for kernel in _by_call.get(call, ()) if unfit(kernel, device) is None]
    here = threads_here()
    return min(
        found,
        key=lambda k: (k.device != name_of(device), (k.threads or 0) > here, k.time_us),
        default=None,
    )


def unfit(kernel: Kernel, device: torch.device) -> str | None:
    """Why the device can't run it."""
    if kernel.kind != device.type:
        return f"it is for {kernel.kind}"
    if kernel.kind == "cuda":
        arch = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
        return None if arch == kernel.arch else f"it is for {kernel.arch}, and this is {arch}"
    if kernel.instructions is None:
        same = kernel.device == name_of(device)
        return None if same else f"it is for {kernel.device}"
    lacking = [each for each in kernel.instructions if each not in _instructions()]
    return f"this CPU lacks {', '.join(lacking)}" if lacking else None


@cache
def name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return _cpuinfo("model name")


def threads_here() -> int:
    """How many threads this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def _instructions() -> frozenset[str]:
    """Instruction sets of this CPU, as LLVM spells them."""
    flags = {flag.replace("_", "") for flag in _cpuinfo("flags").split()}
    return frozenset(flags | {"bmi"} if "bmi1" in flags else flags)


@cache
def _cpuinfo(field: str) -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")

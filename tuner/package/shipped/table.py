"""The package's table of kernels: the calls that they compute, and the devices that run them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

FOLDER = Path(__file__).parent


class BrokenKernel(RuntimeError):
    """Install the package again: a file is not the one that was packed."""


@contextmanager
def as_packed(path: Path) -> Iterator[None]:
    """Raise BrokenKernel, which names the file, if the block can't use the file."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise BrokenKernel(
            f"{path} is not what was packed ({why}); install the package again"
        ) from error


with as_packed(FOLDER / "metadata.json"):
    METADATA: dict[str, Any] = json.loads((FOLDER / "metadata.json").read_text())
    ID: str = METADATA["id"]


class Call(NamedTuple):
    """What a kernel computes. It serves only calls that are equal in all fields.

    Shapes are PyTorch's, (B, C, …) for the input and (F, C / groups, …) for the weight. ``padding``
    is the zeros before each axis, then those behind each axis."""

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
        """Return the call of a row of ``kernels.json``."""
        read: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
        }
        return cls(**read)


class Kernel(NamedTuple):
    """A kernel of the package and the device that it was tuned on.

    ``file`` is its name in the folder ``kernels``, without a suffix. ``instructions`` are the
    instruction sets that a CPU must have, in LLVM's spelling; if they are None, only a CPU of the
    same name runs it. ``error`` is the largest max|y - ref| / max|ref| that it may have.
    ``time_us`` is its time on ``device`` in µs, with ``threads`` threads if that is a CPU."""

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
        """Return the kernel of a row of ``kernels.json``."""
        needed = fields["instructions"]
        made = {"call": Call.of(fields["call"]), "instructions": needed and tuple(needed)}
        return cls(**{**fields, **made})


with as_packed(FOLDER / "kernels.json"):
    KERNELS = [Kernel.of(fields) for fields in json.loads((FOLDER / "kernels.json").read_text())]
_by_call: dict[Call, list[Kernel]] = {}
for _kernel in KERNELS:
    _by_call.setdefault(_kernel.call, []).append(_kernel)


def find(call: Call, device: torch.device) -> Kernel | None:
    """Return the kernel for a call on a device, or None if the device can run no kernel for it.

    Kernels that were tuned on a device of that name come first, then those that need no more
    threads than this process may use, then the fastest."""
    found = [kernel for kernel in _by_call.get(call, ()) if unfit(kernel, device) is None]
    here = threads_here()
    return min(
        found,
        key=lambda k: (k.device != name_of(device), (k.threads or 0) > here, k.time_us),
        default=None,
    )


def unfit(kernel: Kernel, device: torch.device) -> str | None:
    """Return why the device can't run the kernel, or None if it can."""
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
    """Return the name of a GPU, or of this machine's CPU, as kernels have it in ``device``."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return _cpuinfo("model name")


def threads_here() -> int:
    """Return how many threads this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def _instructions() -> frozenset[str]:
    """Return the instruction sets of this CPU in LLVM's spelling. Linux spells a few differently,
    such as ``avx512_fp16`` and ``bmi1``."""
    flags = {flag.replace("_", "") for flag in _cpuinfo("flags").split()}
    return frozenset(flags | {"bmi"} if "bmi1" in flags else flags)


@cache
def _cpuinfo(field: str) -> str:
    """Return the field's value for the first processor; empty if there is no such field."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")

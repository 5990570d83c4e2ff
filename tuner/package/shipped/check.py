"""``python -m NAME.check``: check that every file is the one that was packed, and that every kernel
which this machine can run agrees with PyTorch in float64."""

from __future__ import annotations

import base64
import hashlib
import sys

import torch
from torch import Tensor

from .dispatch import run_kernel
from .reference import apply_epilogue, reference_convolution
from .table import FOLDER, KERNELS, METADATA, Kernel, name_of, unfit

DRAWS = 16
"""How many times inputs are drawn for a call at most. They are drawn again if all outputs are
nearly zero, because no error is relative to zero. Cancellation or the activation can make a few
outputs nearly zero."""


def main() -> int:
    """Print a line for each kernel, or only for each file that was changed if there is one.

    Return the exit code: 0 if no file was changed, a kernel ran, and none was wrong."""
    broken = changed()
    for name in broken:
        print(f"{name}: not the file that was packed")
    if broken:
        return 1
    ran = wrong = 0
    for kernel in KERNELS:
        device = torch.device(kernel.kind)
        here = kernel.kind == "cpu" or torch.cuda.is_available()
        why = unfit(kernel, device) if here else "no GPU is here"
        if why is not None:
            print(f"{describe(kernel)}  not run: {why}")
            continue
        error = error_of(kernel, device)
        right = error <= kernel.error  # False if the error is NaN
        ran, wrong = ran + 1, wrong + (not right)
        print(
            f"{describe(kernel)}  {'right' if right else 'WRONG'} on {name_of(device)}: "
            f"error {error:.1e}, allowed {kernel.error:.1e}"
        )
    print(f"{ran} of {len(KERNELS)} kernels ran, {wrong} wrong; PyTorch computes all other calls")
    return 0 if ran and not wrong else 1


def changed() -> list[str]:
    """Return the files of the package that are missing or differ from what was packed."""
    named: dict[str, str] = METADATA["digest"]["files"]
    return [name for name, digest in named.items() if _digest(name) != digest]


def describe(kernel: Kernel) -> str:
    """Return the kernel's file name and the call that it computes, in words."""
    call = kernel.call
    shapes = " by ".join("x".join(map(str, shape)) for shape in (call.input, call.weight))
    last = ", channels last" if call.channels_last else ""
    behind = [name for name in ("bias", "residual") if getattr(call, name)]
    behind += [] if call.activation == "none" else [call.activation]
    return f"{kernel.file}  {shapes} {call.dtype}{last}{', '.join(['', *behind])}"


def error_of(kernel: Kernel, device: torch.device) -> float:
    """Return max|y - ref| / max|ref| of the kernel's output on normally distributed inputs."""
    for seed in range(DRAWS):
        given, reference, usual = _drawn(kernel, device, seed)
        largest = float(reference.abs().max())
        if largest >= min(usual, 1.0) / 2:
            break
    y = run_kernel(kernel, *given, kernel.call.activation)
    difference = float((y.double() - reference).abs().max())
    return difference / largest if largest else difference and float("inf")


def _drawn(
    kernel: Kernel, device: torch.device, seed: int
) -> tuple[tuple[Tensor, Tensor, Tensor | None, Tensor | None], Tensor, float]:
    """Return the tensors drawn with a seed (input, weight, bias, residual), the reference in
    float64, and the usual size of the largest sum: the root of the largest sum of squared
    products."""
    call = kernel.call
    dtype = getattr(torch, call.dtype)
    draw = torch.Generator().manual_seed(seed)

    def drawn(shape: tuple[int, ...]) -> Tensor:
        made = torch.randn(shape, generator=draw).to(device, dtype)
        last = call.channels_last and len(shape) == len(call.input)
        return made.movedim(1, -1).contiguous().movedim(-1, 1) if last else made

    settings = (call.stride, call.padding, call.dilation, call.groups, call.flipped)
    x, weight = drawn(call.input), drawn(call.weight).contiguous()
    bias = drawn(call.weight[:1]) if call.bias else None
    wide = None if bias is None else bias.double()
    sums = reference_convolution(x.double(), weight.double(), wide, None, *settings, "none")
    residual = drawn(tuple(sums.shape)) if call.residual else None
    squares = reference_convolution(
        x.double() ** 2, weight.double() ** 2, None, None, *settings, "none"
    )
    reference = apply_epilogue(sums, None, residual, call.activation)
    return (x, weight, bias, residual), reference, float(squares.max().sqrt())


def _digest(name: str) -> str | None:
    path = FOLDER / name
    if not path.is_file():
        return None
    return base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()


if __name__ == "__main__":
    sys.exit(main())

"""A kernel's library, loaded and called on PyTorch's tensors."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import torch
import tvm_ffi
from torch import Tensor

from .reference import channels_last
from .runtime import load_runtime, take_threads, use_pytorchs
from .table import FOLDER, BrokenKernel, Kernel, as_packed, threads_here


class Library:
    """A kernel's library, loaded into this process. ``ran_on`` are the devices on which it has run,
    so that its code is loaded there."""

    def __init__(self, kernel: Kernel) -> None:
        """Raise BrokenKernel if a file was changed, and OSError if no runtime can be loaded."""
        path = FOLDER / "kernels" / f"{kernel.file}.so"
        with as_packed(path.with_suffix(".json")):
            manifest = json.loads(path.with_suffix(".json").read_bytes())
            named = manifest["library"]["sha256"]
            arguments = manifest["signature"]["arguments"]
            self._shapes: dict[str, list[int]] = {each["name"]: each["shape"] for each in arguments}
        with as_packed(path):
            digest = sha256(path)
        if digest != named:
            raise BrokenKernel(f"{path} is not what its manifest names; install the package again")
        load_runtime(kernel.kind)
        threads = kernel.threads or 1
        if threads > 1:
            take_threads(min(threads, threads_here()))
        module = tvm_ffi.load_module(str(path))
        if threads > 1:
            use_pytorchs(module, path, threads)
        self._main = module["main"]
        self._channels_last = kernel.call.channels_last
        self._scratch = math.prod(self._shapes["workspace"]) if "workspace" in self._shapes else 0
        self.ran_on: set[torch.device] = set()

    def __call__(self, **given: Tensor) -> Tensor:
        """Return the output for ``input``, ``weight``, ``bias`` and ``residual``, in this order.
        The last two must be given if, and only if, the kernel takes them. All shapes are
        PyTorch's."""
        x, weight = given["input"], given["weight"]
        taken = []
        for name, tensor in given.items():
            moved = self._channels_last and name in ("input", "residual")
            view = channels_last(tensor) if moved else tensor
            taken.append(view.detach().contiguous().view(self._shapes[name]))
        out = torch.empty(self._shapes["output"], dtype=x.dtype, device=x.device)
        taken.append(out)
        if self._scratch:
            taken.append(torch.empty(self._scratch, dtype=torch.float32, device=x.device))
        if x.is_cuda:
            with torch.cuda.device(x.device):
                self._main(*taken)
        else:
            self._main(*taken)
        self.ran_on.add(x.device)
        if self._channels_last:
            return out.movedim(-1, 1)
        return out if out.ndim == x.ndim else out.view(x.shape[0], weight.shape[0], -1)


_loaded: dict[str, Library] = {}


def library(kernel: Kernel) -> Library:
    """Return the kernel's library, which is loaded at the first call. Raise as Library does."""
    found = _loaded.get(kernel.file)
    if found is None:
        found = _loaded[kernel.file] = Library(kernel)
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

"""Conversion of NumPy's arrays to PyTorch's tensors and back. PyTorch does not know NumPy's
bfloat16, so such arrays pass as 16-bit integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from templates.dtypes import in_numpy
from tuner.measure.cases import Array

if TYPE_CHECKING:
    from torch import Tensor


def to_tensor(array: Array, kind: str) -> Tensor:
    """Return a copy of the array on a kind of device, ``cpu`` or ``cuda``."""
    import torch

    copy = np.array(array)
    if copy.dtype.name != "bfloat16":
        return torch.from_numpy(copy).to(kind)
    return torch.from_numpy(copy.view(np.int16)).to(kind).view(torch.bfloat16)


def to_array(tensor: Tensor) -> Array:
    """Return the tensor as an array on the host, which shares the memory of a tensor on a CPU."""
    import torch

    host = tensor.cpu()
    if host.dtype == torch.bfloat16:
        result: Array = host.view(torch.int16).numpy().view(in_numpy("bfloat16"))
    else:
        result = host.numpy()
    return result

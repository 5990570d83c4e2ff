"""NumPy's arrays as PyTorch's tensors and back. PyTorch takes none of bfloat16 from NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from templates.dtypes import in_numpy
from tuner.measure.cases import Array

if TYPE_CHECKING:
    from torch import Tensor


def to_tensor(array: Array, kind: str) -> Tensor:
    """A copy on that kind of device."""
    import torch

    copy = np.array(array)
    if copy.dtype.name != "bfloat16":
        return torch.from_numpy(copy).to(kind)
    return torch.from_numpy(copy.view(np.int16)).to(kind).view(torch.bfloat16)


def to_array(tensor: Tensor) -> Array:
    """A copy on the host."""
    import torch

    host = tensor.cpu()
    if host.dtype == torch.bfloat16:
        result: Array = host.view(torch.int16).numpy().view(in_numpy("bfloat16"))
    else:
        result = host.numpy()
    return result

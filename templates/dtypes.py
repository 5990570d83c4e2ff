"""The element types that tensors have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

Dtype = Literal["float32", "float16", "bfloat16"]

BYTES_PER_ELEMENT = {"float32": 4, "float16": 2, "bfloat16": 2}
ERRORS = (1e-6, 1e-1)
"""The least and the largest ``max_error``."""
USUAL_ERROR = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 4e-3}
"""``max_error`` where none is given."""
LEAST_ERROR = {"float16": 5e-4, "bfloat16": 2e-3}
"""Rounding an output to float16 changes it by up to 2^-11, and to bfloat16 by up to 2^-8; if it is
just below a power of two, by half of that. The rest is for its sum in float32. So on most draws of
a job's inputs no program keeps less than 2^-8 for bfloat16."""


def in_numpy(dtype: str) -> np.dtype[Any]:
    """NumPy's of that name. That of bfloat16 comes with ``ml_dtypes``."""
    import numpy as np  # late: a workload's fields, which complete a command, need none

    if dtype == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(dtype)

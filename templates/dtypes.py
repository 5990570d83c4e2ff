"""Element types of tensors, their sizes, and the accuracies that can be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

Dtype = Literal["float32", "float16", "bfloat16"]

BYTES_PER_ELEMENT = {"float32": 4, "float16": 2, "bfloat16": 2}
MAX_ERROR_RANGE = (1e-6, 1e-1)
"""The least and the largest ``max_error`` that a workload may have."""
USUAL_ERROR = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 4e-3}
"""The default of ``max_error``, by dtype."""
LEAST_ERROR = {"float16": 5e-4, "bfloat16": 2e-3}
"""The least ``max_error`` of each 16-bit dtype: rounding the output alone may need it.

Rounding to float16 changes an output by up to 2^-11, rounding to bfloat16 by up to 2^-8, and by
half of that if the output lies just below a power of two. The rest of the limit is for the sum in
float32. On most draws of a job's inputs no bfloat16 program can have an error below 2^-8.
"""


def in_numpy(dtype: str) -> np.dtype[Any]:
    """Return NumPy's dtype of this name; bfloat16 is the one of ``ml_dtypes``."""
    import numpy as np  # late: shell completion reads a workload's fields and needs no NumPy

    if dtype == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(dtype)

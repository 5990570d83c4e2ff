"""Libraries of float16 and bfloat16: which arrays they take."""

from pathlib import Path

import numpy as np
import pytest
from small_libraries import arrays, error, expected, workload

from tuner.errors import WrongDtype
from tuner.library.load import load
from tuner.library.tensors import shared_view

X, W = arrays(workload("same"))
OUT = np.zeros(1001, np.float32)


@pytest.mark.parametrize(("name", "dtype"), [("half", "float16"), ("bfloat16", "bfloat16")])
def test_library_of_16_bit_floats_takes_only_its_dtype_without_cast(
    libraries: dict[str, Path], name: str, dtype: str
) -> None:
    library = load(libraries[f"{name}-serial"])
    x, w = arrays(workload(name))
    with pytest.raises(WrongDtype, match=f"input must be {dtype}, but is float32; convert it to"):
        library(X, w)
    with pytest.raises(WrongDtype, match=f"weight must be {dtype}, but is float32"):
        library(x, W)
    with pytest.raises(WrongDtype, match=f"output must be {dtype}, but is float32"):
        library(x, w, OUT)
    y = library(X, W, cast=True)
    assert y.dtype == x.dtype
    assert error(y, expected("same", X, W)) < library.workload.max_error * 2


def test_float32_library_takes_bfloat16_only_with_cast(libraries: dict[str, Path]) -> None:
    x, w = arrays(workload("bfloat16"))
    same = load(libraries["same-serial"])
    with pytest.raises(WrongDtype, match=r"input must be float32, but is bfloat16; .*cast=True"):
        same(x, w)
    y = same(x, w, cast=True)
    assert y.dtype == np.float32
    assert error(y, expected("same", x, w)) < 1e-5


def test_view_of_a_bfloat16_array_shares_its_memory() -> None:
    x, _ = arrays(workload("bfloat16"))
    tensor = shared_view(x)
    assert (str(tensor.dtype), tuple(tensor.shape)) == ("bfloat16", x.shape)
    assert tensor.data_ptr() == x.ctypes.data

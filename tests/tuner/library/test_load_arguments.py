"""Which arrays a library takes as they are, which it casts, and which it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_libraries import arrays, error, workload

from tuner.errors import WrongArgument, WrongDtype, WrongLayout, WrongShape
from tuner.library import tensors
from tuner.library.load import load

X, W = arrays(workload("same"))
OUT = np.zeros(1001, np.float32)
READ_ONLY = OUT.copy()
READ_ONLY.flags.writeable = False


def read_only(path: Path, x: Any) -> dict[str, Any]:
    frozen = x.copy()
    frozen.flags.writeable = False
    x.tofile(path)
    mapped = np.memmap(path, x.dtype, "r", shape=x.shape)
    return {
        "frozen": frozen,
        "of bytes": np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
        "mapped": mapped,
        "mapped, as an array": np.asarray(mapped),
    }


def test_arguments_are_taken_by_position_and_by_name(libraries: dict[str, Path]) -> None:
    library = load(libraries["same-serial"])
    x, w = arrays(library.workload)
    y = library(x, w)
    for found in (
        library(x, weight=w),
        library(weight=w, input=x, out=np.empty_like(y)),
        library(input=x.astype("f8"), weight=w, cast=True),
    ):
        np.testing.assert_array_equal(found, y)
    for call, says in (
        (lambda: library(x), "missing 1 required positional argument: 'weight'"),
        (lambda: library(x, w, bias=w), "unexpected keyword argument 'bias'"),
        (lambda: library(x, w, input=x), "multiple values for argument 'input'"),
    ):
        with pytest.raises(TypeError, match=says):
            call()


@pytest.mark.parametrize(
    "built", ["full-parallel", "half-serial", "bfloat16-serial", "depthwise-serial"]
)
def test_inputs_may_be_read_only(libraries: dict[str, Path], tmp_path: Path, built: str) -> None:
    library = load(libraries[built])
    x, w = arrays(library.workload)
    y = library(x, w)
    weights = read_only(tmp_path / "w", w)
    for name, given in read_only(tmp_path / "x", x).items():
        assert not given.flags.writeable
        view = tensors.checked_view(library.arguments[0], given, "cpu")
        assert view.data_ptr() == given.ctypes.data, "it is a copy"
        for weight in (w, weights[name]):
            out = np.full_like(y, np.nan)
            library(given, weight, out)
            np.testing.assert_array_equal(out, y)


def test_read_only_view_of_the_output_is_refused_as_input(libraries: dict[str, Path]) -> None:
    x = OUT.view()
    x.flags.writeable = False
    with pytest.raises(WrongLayout, match="output must not share memory with input"):
        load(libraries["same-serial"])(x, W, OUT)


def test_read_only_input_of_another_shape_or_layout_is_refused(libraries: dict[str, Path]) -> None:
    library = load(libraries["same-serial"])
    for given, kind in ((READ_ONLY[:-1], WrongShape), (READ_ONLY[::-1], WrongLayout)):
        with pytest.raises(kind):
            library(given, W)


REAL = ["float64", "float16", "int16", "uint8", "int64", "bool", ">f4"]


@pytest.mark.parametrize("dtype", REAL)
def test_other_real_dtypes_are_cast_only_on_request(libraries: dict[str, Path], dtype: str) -> None:
    library = load(libraries["same-serial"])
    x, w = (10 * X).astype(dtype), (10 * W).astype(dtype)
    before = x.copy()
    with pytest.raises(WrongDtype, match="cast=True, which copies it every time"):
        library(x, w)
    out = np.empty_like(OUT)
    y = library(x, w, out=out, cast=True)
    assert y is out
    np.testing.assert_array_equal(y, library(x.astype("f4"), w.astype("f4")))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(library(x[::-1], W, cast=True), library(x[::-1].astype("f4"), W))


def test_cast_does_not_copy_an_array_of_the_right_dtype() -> None:
    assert tensors.cast(X, "float32") is X


@pytest.mark.parametrize("dtype", [">f4", "O"])
def test_read_only_array_of_another_dtype_is_named(libraries: dict[str, Path], dtype: str) -> None:
    foreign = X.astype(dtype)
    foreign.flags.writeable = False
    with pytest.raises(WrongDtype, match="input must be float32"):
        load(libraries["same-serial"])(foreign, W)


def test_output_is_never_cast(libraries: dict[str, Path]) -> None:
    with pytest.raises(WrongDtype, match="output must be float32, but is float64") as refused:
        load(libraries["same-serial"])(X, W, OUT.astype("f8"), cast=True)
    assert "cast=True" not in str(refused.value)


@pytest.mark.parametrize("cast", [False, True])
def test_complex_input_is_refused_and_two_real_calls_replace_it(
    libraries: dict[str, Path], cast: bool
) -> None:
    library = load(libraries["same-serial"])
    signal = (X + 1j * X[::-1]).astype("c8")
    with pytest.raises(WrongDtype, match="is complex64; without an epilogue the operator"):
        library(signal, W, cast=cast)
    real, imaginary = (np.ascontiguousarray(part) for part in (signal.real, signal.imag))
    y = library(real, W) + 1j * library(imaginary, W)
    reference = np.correlate(signal.astype("c16"), W.astype("f8"), "same")
    assert error(y, reference) < 1e-5


@pytest.mark.torch
def test_pytorch_tensors_are_cast(libraries: dict[str, Path]) -> None:
    import torch

    library = load(libraries["same-serial"])
    x, w = torch.from_numpy(10 * X), torch.from_numpy(W)
    for dtype in (torch.float64, torch.int16, torch.bfloat16):
        y = library(x.to(dtype), w.double(), cast=True)
        assert torch.equal(y, library(x.to(dtype).float(), w))
    with pytest.raises(WrongDtype, match="complex64; without an epilogue the operator is linear"):
        library(x.to(torch.complex64), w, cast=True)
    with pytest.raises(WrongArgument, match=r"pass input\.detach\(\)"):
        library(x.double().requires_grad_(), w, cast=True)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:::torch")  # PyTorch warns of its own deprecated functions
@pytest.mark.filterwarnings("ignore:Converting a tensor to a Python")  # PyTorch's tracer warns
def test_call_that_pytorch_would_not_trace_or_differentiate_is_refused(
    libraries: dict[str, Path],
) -> None:
    import torch
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx

    library = load(libraries["same-serial"])
    x, w, out = torch.from_numpy(X), torch.from_numpy(W), torch.empty(1001)
    transformed: list[tuple[str, Callable[[], Any]]] = [
        ("make_fx", lambda: make_fx(lambda x: library(x, w))(x)),
        ("make_fx", lambda: make_fx(lambda x: library(x, w, out))(x)),
        ("torch.func", lambda: torch.func.vmap(lambda x: library(x, w))(x.repeat(2, 1))),
        ("torch.func", lambda: torch.func.jvp(lambda x: library(x, w), (x,), (x,))),
        ("requires grad", lambda: torch.func.grad(lambda x: library(x, w).sum())(x)),
    ]
    for says, call in transformed:
        with pytest.raises(WrongArgument, match=says):
            call()
    with pytest.raises(WrongArgument, match=r"torch\.jit\.trace can't record it"):
        torch.jit.trace(lambda x: library(x, w, out), (x,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(1001))
        with pytest.raises(WrongArgument, match="its tangent of forward-mode"):
            library(dual, w)
        library(x, w, out)
    assert torch.equal(library(x, w), out)

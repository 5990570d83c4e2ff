"""A package's functions, beside convtune in one process, compute what PyTorch's functions do."""

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packages import loaded, written

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.nn import functional  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")]


@pytest.fixture(scope="module")
def variant(source: Local, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(source, tmp_path_factory.mktemp("packages") / "kernels-of-mine")


@pytest.fixture(scope="module")
def package(variant: Path) -> Any:
    return loaded(variant, "kernels_of_mine")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, package: Any) -> Callable[[], list[str]]:
    """Return a function that lists what computed the calls since it was last asked: the operator in
    a kernel file's name, or PyTorch."""
    sys.modules["kernels_of_mine.dispatch"]._kernel.cache_clear()
    caplog.set_level(logging.INFO, "kernels_of_mine")

    def asked() -> list[str]:
        own = [each for each in caplog.records if each.name == "kernels_of_mine.dispatch"]
        found = [each.message.rpartition(" ")[2].partition("-")[0] for each in own]
        caplog.clear()
        return found

    return asked


def drawn(*shape: int, last: bool = False, dtype: str = "float32") -> Any:
    made = torch.randn(shape).to(getattr(torch, dtype))
    return made.movedim(1, -1).contiguous().movedim(-1, 1) if last else made


def worst(y: Any, reference: Any) -> float:
    assert y.shape == reference.shape
    return float((y.double() - reference).abs().max() / reference.abs().max())


def both(package: Any, name: str, *tensors: Any, **how: Any) -> float:
    """Call the package's function; return its relative error against PyTorch in float64."""
    own = {"activation", "residual", "kind"}
    y = getattr(package, name)(*tensors, **how)
    x, w, *bias = (each.double() for each in tensors)
    w = w.flip(-1) if how.get("kind") == "convolve" else w
    plain = {key: value for key, value in how.items() if key not in own}
    if name == "conv1d":
        reference = functional.conv1d(x, w, *bias, **plain)
    else:
        reference = functional.conv2d(x, w, *bias, groups=x.shape[-3], **plain)
    if how.get("residual") is not None:
        reference = reference + how["residual"].double()
    if "activation" in how:
        reference = getattr(functional, how["activation"])(reference)
    return worst(y, reference)


CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "full": ("conv1d", ((1, 1, 16384), (1, 1, 32)), {"padding": 31, "kind": "convolve"}),
    "same": ("conv1d", ((1, 1, 1001), (1, 1, 7)), {"padding": "same"}),
    "one signal": ("conv1d", ((1, 1001), (1, 1, 7)), {"padding": (3,)}),
    "signals": (
        "conv1d",
        ((2, 4, 61), (8, 1, 5)),
        {"stride": 2, "padding": 6, "dilation": 3, "groups": 4},
    ),
    "two dimensions": ("depthwise_conv2d", ((2, 3, 9, 20), (3, 1, 3, 3)), {"padding": 1}),
    "pairs": (
        "depthwise_conv2d",
        ((2, 3, 9, 20), (3, 1, 3, 3)),
        {"padding": (1, 1), "stride": (1, 1), "dilation": [1, 1]},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_packed_kernel_computes_its_call(
    package: Any, said: Callable[[], list[str]], name: str
) -> None:
    operator, shapes, how = CALLS[name]
    assert both(package, operator, *(drawn(*shape) for shape in shapes), **how) < 1e-5
    assert said() == [operator]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_kernel_of_16_bit_floats_computes_its_call(
    package: Any, said: Callable[[], list[str]], dtype: str
) -> None:
    """Kernels of float16 and bfloat16 compute the calls of these dtypes."""
    x, w = drawn(1, 1, 1001, dtype=dtype), drawn(1, 1, 7, dtype=dtype)
    assert both(package, "conv1d", x, w, padding=3) < 4e-3
    assert said() == ["conv1d"]


def test_kernel_computes_calls_in_channels_last(
    package: Any, said: Callable[[], list[str]]
) -> None:
    x, w = drawn(2, 4, 61, last=True), drawn(6, 4, 5)
    assert both(package, "conv1d", x, w, padding=2) < 1e-5
    assert said() == ["conv1d"]
    x, w, b = drawn(2, 6, 7, 9, last=True), drawn(6, 1, 3, 3), drawn(6)
    y = package.depthwise_conv2d(x, w, b, padding=1)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert both(package, "depthwise_conv2d", x, w, b, padding=1) < 1e-5
    assert said() == ["depthwise_conv2d"]
    x, w = drawn(2, 6, 9, 20, last=True), drawn(6, 1, 3, 5)
    y = package.depthwise_conv2d(x, w, padding=(0, 2, 1, 2))
    wide = functional.pad(x.double(), (2, 2, 0, 1))
    assert worst(y, functional.conv2d(wide, w.double(), groups=6)) < 1e-5
    assert said() == ["depthwise_conv2d"]


@pytest.mark.parametrize("activation", ["relu", "relu6", "silu", "gelu", "hardswish"])
def test_bias_residual_and_activation_follow_a_kernel_that_lacks_them(
    package: Any, said: Callable[[], list[str]], activation: str
) -> None:
    x, w, b, r = drawn(2, 3, 9, 20), drawn(3, 1, 3, 3), drawn(3), drawn(2, 3, 9, 20)
    how = {"padding": 1, "residual": r, "activation": activation}
    assert both(package, "depthwise_conv2d", x, w, b, **how) < 1e-5
    # This residual is broadcast over batch and channels.
    one = {"padding": 1, "residual": drawn(9, 20), "activation": activation}
    assert both(package, "depthwise_conv2d", x, w, b, **one) < 1e-5
    assert said() == ["depthwise_conv2d"]


@pytest.mark.parametrize(
    "x",
    [drawn(3, 3, 9, 20), drawn(2, 3, 9, 40)[..., ::2], drawn(2, 3, 9, 20, dtype="float64")],
    ids=["shape", "strides", "dtype"],
)
def test_call_without_a_kernel_is_computed_by_pytorch(
    package: Any, said: Callable[[], list[str]], x: Any
) -> None:
    w = drawn(3, 1, 3, 3).to(x.dtype)
    assert both(package, "depthwise_conv2d", x, w, padding=1) < 1e-5
    assert "depthwise_conv2d" not in said()


def test_derivatives_of_package_functions_equal_pytorchs(package: Any) -> None:
    tensors = [drawn(2, 3, 9, 20), drawn(3, 1, 3, 3), drawn(3)]

    def ours(x: Any, w: Any, b: Any) -> Any:
        return package.depthwise_conv2d(x, w, b, padding=1, activation="silu")

    def pytorchs(x: Any, w: Any, b: Any) -> Any:
        return functional.silu(functional.conv2d(x, w, b, padding=1, groups=3))

    found = []
    for function in (ours, pytorchs):
        given = [each.clone().requires_grad_() for each in tensors]
        function(*given).square().sum().backward()
        pushed = torch.func.jvp(
            lambda x, f=function: f(x, *tensors[1:]), (tensors[0],), (tensors[0],)
        )
        taken = torch.func.grad(lambda x, f=function: f(x, *tensors[1:]).sum())(tensors[0])
        found.append([*(each.grad for each in given), pushed[1], taken])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)
    with torch.no_grad():
        assert not ours(*given).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(ours(*tensors), pytorchs(*tensors))


def test_package_functions_obey_autocast(package: Any) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = package.depthwise_conv2d(drawn(2, 3, 9, 20), drawn(3, 1, 3, 3), padding=1)
    assert y.dtype == torch.bfloat16


def test_package_function_is_one_operator_of_a_compiled_graph(
    package: Any, said: Callable[[], list[str]]
) -> None:
    table = sys.modules["kernels_of_mine.table"]
    operator = getattr(torch.ops, table.ID).depthwise_conv2d
    x, w, b = drawn(2, 6, 7, 9, last=True), drawn(6, 1, 3, 3), drawn(6)
    how = ([1, 1], [1, 1, 1, 1], [1, 1], 6, False, "none")
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(operator, (x, w, b, None, *how), test_utils=tests)
    seen = []

    def graphs(module: Any, _: Any) -> Any:
        seen.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    def function(x: Any, w: Any, b: Any) -> Any:
        return 2 * package.depthwise_conv2d(x, w, b, padding=1)

    said()
    sys.modules["kernels_of_mine.dispatch"]._kernel.cache_clear()
    with torch.no_grad():
        y = torch.compile(function, backend=graphs, fullgraph=True)(x, w, b)
    assert f"{table.ID}.depthwise_conv2d" in seen
    assert said() == ["depthwise_conv2d"]
    assert (
        worst(y, 2 * functional.conv2d(*(t.double() for t in (x, w, b)), padding=1, groups=6))
        < 1e-5
    )


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"kind": "convolved"}, "kind is 'convolved'"),
        ({"activation": "tanh"}, "activation is 'tanh'"),
        ({"padding": "causal"}, "padding is 'causal'"),
        ({"padding": (1, 2, 3)}, "padding must be 1 or 2 numbers, but is (1, 2, 3)"),
        ({"padding": ()}, "padding must be 1 or 2 numbers"),
        ({"stride": (1, 2)}, "stride must be 1 number, but is (1, 2)"),
        ({"dilation": (1, 2)}, "dilation must be 1 number, but is (1, 2)"),
        ({"padding": "same", "stride": 2}, "not supported for strided"),
    ],
)
def test_package_functions_refuse_invalid_arguments(
    package: Any, how: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        package.conv1d(drawn(1, 1, 9), drawn(1, 1, 3), **how)
    with pytest.raises(ValueError, match="conv1d takes an input of 2 or 3 axes and a weight of 3"):
        package.conv1d(drawn(9), drawn(3))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"padding": (1, 2, 3)}, "padding must be 1, 2 or 4 numbers, but is (1, 2, 3)"),
        ({"stride": (1, 2, 3)}, "stride must be 1 or 2 numbers, but is (1, 2, 3)"),
        ({"dilation": (1, 2, 3)}, "dilation must be 1 or 2 numbers, but is (1, 2, 3)"),
    ],
)
def test_package_functions_refuse_other_counts_of_numbers_for_images(
    package: Any, how: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        package.depthwise_conv2d(drawn(1, 1, 9, 9), drawn(1, 1, 3, 3), **how)
    with pytest.raises(ValueError, match="takes an input of 3 or 4 axes and a weight of 4"):
        package.depthwise_conv2d(drawn(9, 9), drawn(1, 1, 3, 3))


def test_two_copies_of_a_package_and_convtune_work_in_one_process(
    package: Any, variant: Path, source: Local
) -> None:
    """Two copies of a package, convtune's own library and TVM compute in one process."""
    again = loaded(variant, "the_same_again")
    x, w = drawn(1, 1, 16384), drawn(1, 1, 32)
    how = {"padding": 31, "kind": "convolve"}
    y = package.conv1d(x, w, **how)
    assert torch.equal(y, again.conv1d(x, w, **how))
    library = source.load(source.best("conv1d", M=16384, N=32))
    assert torch.equal(y[0, 0], library(x[0, 0], w[0, 0]))
    import tvm

    assert tvm.runtime.enabled("cpu")


def test_package_chooses_the_kernel_that_fits_the_device(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sys.modules["kernels_of_mine.table"]
    cpu, here, own = torch.device("cpu"), table.threads_here(), table.KERNELS[0]
    other = own._replace(device="another CPU", time_us=1.0)
    lacking = own._replace(instructions=(*own.instructions, "avx99"), time_us=0.1)
    unknown = other._replace(instructions=None, time_us=0.1)
    wide = own._replace(threads=here + 1, time_us=0.1)
    gpu = own._replace(kind="cuda", time_us=0.1)

    def found(*kernels: Any) -> Any:
        monkeypatch.setitem(table._by_call, own.call, list(kernels))
        return table.find(own.call, cpu)

    assert found(other, own) == own
    assert found(wide, own) == own
    assert found(wide) == wide
    assert found(lacking, unknown, gpu, other) == other
    assert found(lacking, unknown, gpu) is None
    assert table.unfit(lacking, cpu) == "this CPU lacks avx99"
    assert table.unfit(unknown, cpu) == "it is for another CPU"


def test_package_sets_the_same_thread_variables_as_convtune(package: Any) -> None:
    """The package sets the environment variables for threads that convtune sets."""
    import os

    from tuner.library.runtime import threading_environment

    with pytest.MonkeyPatch.context() as patch:
        for name in threading_environment(3):
            patch.delenv(name, raising=False)
        sys.modules["kernels_of_mine.runtime"].take_threads(3)
        assert {name: os.environ[name] for name in threading_environment(3)} == (
            threading_environment(3)
        )

"""The module of a convolution between gates, which programs can call themselves."""

import re
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tuner.errors import WrongArgument  # noqa: E402
from tuner.torch import GatedConv1d  # noqa: E402

pytestmark = pytest.mark.torch


def close(a: Any, b: Any) -> bool:
    return bool(torch.allclose(a, b, atol=1e-6))


@pytest.fixture
def module(gated: Local) -> GatedConv1d:
    torch.manual_seed(3)
    weight, bias = torch.randn(6, 1, 4), torch.randn(6)
    return GatedConv1d(weight, bias, source=gated, mode="causal", kind="correlate", groups=6).eval()


@pytest.fixture
def whole() -> Any:
    return torch.randn(2, 9, 18).mT


def test_gated_conv1d_multiplies_before_and_after_the_convolution(module: Any, whole: Any) -> None:
    before, behind, signal = whole.chunk(3, dim=1)
    y = functional.conv1d(before * signal, module.weight, module.bias, 1, 3, 1, 6)[..., :9]
    with torch.no_grad():
        assert close(module(whole), y * behind)
        assert (module.used, module.reason) == ("tuned", "gated")
        assert close(module(whole), y * behind)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        assert close(compiled(whole), y * behind)


def test_pytorch_computes_gradients_of_a_gated_conv1d(module: Any, whole: Any) -> None:
    whole = whole.detach().requires_grad_()
    module(whole).sum().backward()
    found = whole.grad.clone()
    whole.grad = None
    module.plain(whole, module.weight, module.bias).sum().backward()
    assert close(found, whole.grad)
    assert module.used == "pytorch"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda x: x.contiguous(), "layout is NCW"),
        (lambda x: x[..., :1].contiguous(), "nothing is tuned for .*--gated"),
        (lambda x: x[:, :12], r"not \(B, 18, M\)"),
        (lambda x: x[0], r"not \(B, 18, M\)"),
    ],
)
def test_reason_says_why_no_kernel_takes_the_input(
    module: Any, whole: Any, given: Any, said: str
) -> None:
    with torch.no_grad():
        try:
            module(given(whole))
        except RuntimeError:
            assert given(whole).shape[-2] != 18
        found = module.found_for(given(whole), whole.device)
    assert found.library is None
    assert re.search(said, found.reason), found.reason


def test_causal_conv1d_becomes_a_gated_conv1d(gated: Local, module: Any, whole: Any) -> None:
    conv = nn.Conv1d(6, 6, 4, padding=3, groups=6)
    conv.weight, conv.bias = module.weight, module.bias
    with torch.no_grad():
        assert close(GatedConv1d.of(conv, source=gated)(whole), module(whole))


@pytest.mark.parametrize(
    "form",
    [
        {"mode": "causal"},
        {"groups": 6},
        {"groups": 6, "mode": "causal", "stride": 2},
        {"groups": 6, "padding": (2, 2)},
    ],
    ids=str,
)
def test_gated_conv1d_refuses_forms_without_an_output_for_each_sample(
    gated: Local, form: dict[str, Any]
) -> None:
    with pytest.raises(WrongArgument, match="an output for each sample"):
        GatedConv1d(torch.randn(6, 1, 4), source=gated, **form)

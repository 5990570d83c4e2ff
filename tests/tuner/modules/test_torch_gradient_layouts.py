"""Gradients by kernels if other tensors of a call have another memory layout than the input."""

from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from test_torch_gradients import BOTH, each_case, gradients, last, plain, same  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


@each_case
def test_gradients_are_right_if_the_residual_has_another_layout(trained: Local, case: Any) -> None:
    module, x = case(trained, activation="silu")
    swapped = (0, *range(2, x.ndim), 1)
    back = (0, x.ndim - 1, *range(1, x.ndim - 1))
    one, other = torch.randn_like(x).contiguous(), torch.randn_like(x).permute(swapped).contiguous()
    sums, given = module.sums, []
    module.sums = lambda *of: given.append(of[3]) or sums(*of)
    for residual in (one, other.permute(back)):
        added = {"residual": residual.requires_grad_()}
        found = gradients(module, x, **added)
        assert module.used_backward == BOTH
        same(found, gradients(module, x, plain(module), **added))
    assert [each.stride() for each in given] == [x.stride()] * 2


def test_gradients_are_right_if_pytorchs_output_has_another_layout(trained: Local) -> None:
    """If only the gradients of a shape are tuned, PyTorch computes the output. The derivative is
    told from that output, which may have another layout than the input."""
    module, x = last(trained, activation="relu")
    reference = gradients(module, x, plain(module))
    computed = module.plain
    module.by_kernel = lambda *given: "no kernel of the output is tuned"
    module.plain = lambda *given: computed(*given).contiguous()
    found = gradients(module, x)
    assert module.used_backward == BOTH
    same(found, reference)

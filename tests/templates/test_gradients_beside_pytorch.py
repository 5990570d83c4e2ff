"""A causal layer's gradients on a CPU, one by one and all at once, equal those of PyTorch's
autograd."""

from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_causal_layer_gradients_one_by_one_equal_pytorchs(layout: str) -> None:
    rng = np.random.default_rng(5)
    x, w, b, g = (
        torch.tensor(rng.standard_normal(shape), dtype=torch.float32, requires_grad=True)
        for shape in ((3, 13, 97), (13, 1, 4), (13,), (3, 13, 97))
    )
    sums = torch.nn.functional.conv1d(torch.nn.functional.pad(x, (3, 0)), w, b, groups=13)
    torch.nn.functional.silu(sums).backward(g)
    flat = torch.cat([w.grad.reshape(-1), b.grad])
    tensors = {"input": x, "weight": w, "output_gradient": g, "sums": sums}
    for direction, expected in (("backward_input", x.grad), ("backward_weight", flat)):
        work = Conv1dWorkload.model_validate(
            {"B": 3, "C": 13, "M": 97, "N": 4, "mode": "causal", "kind": "correlate"}
            | {"layout": layout, "bias": True, "activation": "silu", "direction": direction}
        )
        given = [laid(tensors[each.name].detach().numpy(), each.layout) for each in work.inputs]
        (template,) = templates.templates_for(work, CPU)
        found = Compiled(template, work, template.default(work, CPU)).run(*given)
        exact = laid(expected.numpy(), work.output.layout)
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_causal_layer_gradients_in_one_program_equal_pytorchs(layout: str) -> None:
    rng = np.random.default_rng(5)
    x, w, b, g = (
        torch.tensor(rng.standard_normal(shape), dtype=torch.float32, requires_grad=True)
        for shape in ((3, 13, 97), (13, 1, 4), (13,), (3, 13, 97))
    )
    sums = torch.nn.functional.conv1d(torch.nn.functional.pad(x, (3, 0)), w, b, groups=13)
    torch.nn.functional.silu(sums).backward(g)
    work = Conv1dWorkload.model_validate(
        {"B": 3, "C": 13, "M": 97, "N": 4, "mode": "causal", "kind": "correlate"}
        | {"layout": layout, "bias": True, "activation": "silu", "direction": "backward"}
    )
    tensors = {"input": x, "weight": w, "output_gradient": g, "bias": b}
    given = [laid(tensors[each.name].detach().numpy(), each.layout) for each in work.inputs]
    (template,) = templates.templates_for(work, CPU)
    found = Compiled(template, work, template.default(work, CPU)).outputs(*given)
    for y, each in zip(found, (x.grad, w.grad, b.grad), strict=True):
        exact = each.numpy() if each.ndim < 3 or each is w.grad else laid(each.numpy(), layout)
        np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)


def laid(values: Any, layout: str | None) -> Any:
    """Return an array (B, C, M) in the layout: as (B, M, C) for NWC, otherwise unchanged."""
    return np.ascontiguousarray(values.transpose(0, 2, 1) if layout == "NWC" else values)

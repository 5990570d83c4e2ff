"""An input without a batch's axis, in a layer that took in a batch norm: PyTorch's norm refuses it,
or takes its samples for channels."""

import copy
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, scramble  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
KINDS: dict[str, tuple[Any, str, dict[str, int]]] = {
    "signals": (
        nn.Sequential(nn.Conv1d(4, 4, 3, padding=1, groups=4), nn.BatchNorm1d(4)),
        "conv1d",
        {"B": 1, "C": 4, "M": 4, "N": 3, "mode": "same", "kind": "correlate"},
    ),
    "images": (
        nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.BatchNorm2d(6)),
        "depthwise_conv2d",
        {"B": 1, "C": 6, "H": 7, "W": 9, "K": 3},
    ),
}


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, source: Local) -> tuple[Any, Any, Any]:
    """Return a model, an optimised copy, and a batch of one input. The convolution's kernel would
    also take that input by itself."""
    plain, operator, shape = copy.deepcopy(KINDS[request.param])
    source.tune(operator, shape | {"bias": True}, target="cpu", trials=1, baselines="none")
    scramble(plain.eval())
    tuned = copy.deepcopy(plain)
    x = torch.randn(*(shape[size] for size in ("B", "C", "M", "H", "W") if size in shape))
    (row,) = optimize_(tuned, x, source=source).rows
    assert row.takes_in
    return plain, tuned, x


def outcome(call: Any, x: Any) -> Any:
    """Return the output, or the words of the error."""
    try:
        return call(x)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_norm_of_an_unbatched_input_is_pytorchs(
    case: Any, compiled: bool, training: bool, grad: bool
) -> None:
    plain, tuned, x = case
    with torch.set_grad_enabled(grad):
        for model in (plain, tuned):
            model.train(training)
        call = torch.compile(tuned, backend="aot_eager") if compiled else tuned
        found, expected = outcome(call, x[0]), outcome(plain, x[0])
        if isinstance(expected, str):
            assert found == expected
        else:
            assert close(found, expected)
    torch.compiler.reset()
    with torch.no_grad():
        assert close(tuned.eval()(x), plain.eval()(x))
    assert tuned[0].used == "tuned"

"""If a model's layer is put into a new sequence, with the modules that it took in or without them,
the sequence and the model compute what they would without tuned layers."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        norm = nn.BatchNorm2d(6)
        norm.running_mean.normal_()
        nn.init.normal_(norm.weight)
        self.body = nn.Sequential(
            nn.Conv2d(6, 6, 3, padding=1, groups=6), norm, nn.Identity(), nn.ReLU6(), nn.Tanh()
        )

    def forward(self, x: Any) -> Any:
        return self.body(x)


def rebuilt(*modules: Any) -> Callable[[Any], Any]:
    """Return a function that replaces a model's sequence. The new sequence holds modules of the old
    one, given by their numbers, and other modules."""

    def change(model: Any) -> Any:
        old = model.body
        model.body = nn.Sequential(*(old[m] if isinstance(m, int) else m for m in modules))
        return model

    return change


PARTED: dict[str, Callable[[Any], Any]] = {
    "something between": rebuilt(0, nn.Sigmoid(), 1, 2, 3, 4),
    "without the activation": rebuilt(0, 1, 2),
    "without the norm": rebuilt(0, 2, 3),
    "another order": rebuilt(0, 3, 1, 2),
    "once whole and once not": rebuilt(0, 1, 2, 3, 0, 4),
    "a feature extractor": lambda model: model.body[:2],
    "the layer alone": lambda model: model.body[:1],
    "a copied feature extractor": lambda model: copy.deepcopy(model.body[:2]),
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "the same modules": rebuilt(0, 1, 2, 3, 4),
    "another module before": rebuilt(nn.Sigmoid(), 0, 1, 2, 3),
    "a feature extractor": lambda model: model.body[:4],
    "a copied feature extractor": lambda model: copy.deepcopy(model.body[:4]),
}


def tuned_and_plain(source: Local, x: Any) -> tuple[Any, Any]:
    model = Net().eval()
    plain = copy.deepcopy(model)
    optimize_(model, x, source=source)
    assert model.body[0].norm is not None
    return model, plain


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("change", PARTED.values(), ids=PARTED)
def test_sequence_that_parts_layer_from_norm_or_activation_equals_pytorchs(
    source: Local, x: Any, change: Callable[[Any], Any], compiles: bool
) -> None:
    model, plain = tuned_and_plain(source, x)
    called: Any = torch.compile if compiles else lambda module: module
    first = called(model)
    assert close(outputs(first, x), outputs(plain, x))
    new, same = change(model), change(plain)
    with pytest.warns(UserWarning, match=r"in a Sequential it is not directly|another module st"):
        y = outputs(called(new), x)
    assert close(y, outputs(same, x))
    assert close(outputs(first, x), outputs(plain, x))
    torch.compiler.reset()


@pytest.mark.parametrize("change", WHOLE.values(), ids=WHOLE)
def test_sequence_that_keeps_norm_and_activation_behind_the_layer_stays_fused(
    source: Local, x: Any, change: Callable[[Any], Any]
) -> None:
    model, plain = tuned_and_plain(source, x)
    new, same = change(model), change(plain)
    assert close(outputs(new, x), outputs(same, x))
    assert any(getattr(each, "norm", None) is not None for each in new.modules())


def test_deleted_sequence_leaves_the_model_fused(source: Local, x: Any) -> None:
    model, plain = tuned_and_plain(source, x)
    assert len([*model.body[:2].parameters()]) == 4
    assert close(outputs(model, x), outputs(plain, x))
    assert model.body[0].norm is not None

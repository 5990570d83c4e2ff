"""The peers causal-conv1d and cuDNN: which tensors they are given, and which workloads they do not
take. The libraries need a GPU; PyTorch on the CPU stands in for them here."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload
from tuner.measure.cases import draw
from tuner.measure.check import relative_error
from tuner.peers import causal_conv1d_peer, cudnn_peer
from tuner.peers.causal_conv1d_peer import WITHIN, causal
from tuner.peers.gradients import causal_conv1d as backward_peer
from tuner.peers.peer import Broken, Peer
from tuner.peers.pytorch_peer import signals_in_layout
from tuner.peers.torch_arrays import to_array, to_tensor

LIBRARIES = {"causal_conv1d": causal_conv1d_peer, "cudnn": cudnn_peer}
ALL: dict[str, Any] = LIBRARIES | {"gradients": backward_peer}
BOTH = ["NCW", "NWC"]
SIGNALS: dict[str, Any] = {"B": 2, "C": 16, "M": 50, "N": 4, "mode": "causal"}


def workload(**shape: Any) -> Conv1dWorkload:
    found = templates.operator("conv1d").workload.model_validate(SIGNALS | shape)
    assert isinstance(found, Conv1dWorkload)
    return found


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"bias": True, "activation": "silu", "dtype": "float16"},
        {"bias": True, "activation": "relu6", "kind": "correlate", "layout": "NWC"},
        {"bias": True, "residual": True, "activation": "silu", "layout": "NWC"},
        {"B": 1, "C": 1, "dtype": "bfloat16"},
    ],
)
@pytest.mark.torch
def test_causal_library_computes_the_sums_and_pytorch_the_rest(
    shape: dict[str, Any], last: bool
) -> None:
    import torch

    work = workload(**shape)
    within: list[str] = []

    def bind(kernels: Any, bias: Any, activation: str) -> Callable[[Any], Any]:
        assert (kernels.shape, bias is not None) == ((work.C, work.N), work.bias)
        assert activation in WITHIN
        within.append(activation)

        def convolve(signals: Any) -> Any:
            assert signals.shape == (work.B, work.C, work.M)
            assert (signals.transpose(1, 2) if last else signals).is_contiguous()
            y = torch.nn.functional.conv1d(
                signals, kernels[:, None], bias, padding=work.N - 1, groups=work.C
            )[..., : work.M]
            return torch.nn.functional.silu(y) if activation == "silu" else y

        return convolve

    given = draw(work, "normal", np.random.default_rng(3))
    layout = torch.channels_last if last else torch.contiguous_format
    call = causal(bind, work, layout, *(to_tensor(array, "cpu") for array in given))
    y = to_array(signals_in_layout(work, call())).reshape(work.output.shape)
    assert relative_error(y, reference(work, *given)) < work.max_error
    alone = work.activation == "silu" and not work.residual
    assert within == ["silu" if alone else "none"]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"bias": True, "activation": "silu"},
        {"activation": "silu", "kind": "correlate", "layout": "NWC"},
        {"bias": True, "layout": "NWC", "dtype": "bfloat16"},
    ],
)
@pytest.mark.torch
def test_causal_conv1d_gets_its_tensors_and_gives_all_gradients(
    shape: dict[str, Any], last: bool
) -> None:
    import torch

    work = workload(direction="backward", **shape)

    def backward(x: Any, kernels: Any, bias: Any, g: Any, *rest: Any) -> tuple[Any, ...]:
        assert rest == (None, None, None, None, False, work.activation == "silu")
        assert ((bias is not None), kernels.shape) == (work.bias, (work.C, work.N))
        for signals in (x, g):
            assert signals.shape == (work.B, work.C, work.M)
            assert (signals.transpose(1, 2) if last else signals).is_contiguous()
        wanted = [each.detach().requires_grad_() for each in (x, kernels, bias) if each is not None]
        y = torch.nn.functional.conv1d(
            wanted[0], wanted[1][:, None], *wanted[2:], padding=work.N - 1, groups=work.C
        )[..., : work.M]
        y = torch.nn.functional.silu(y) if rest[-1] else y
        dx, dw, *db = torch.autograd.grad(y, wanted, g)
        return dx, dw, db[0] if db else None, None

    given = draw(work, "normal", np.random.default_rng(3))
    layout = torch.channels_last if last else torch.contiguous_format
    call = backward_peer.call(backward, work, layout, *(to_tensor(each, "cpu") for each in given))
    exact = templates.operator("conv1d").references(work, *given)
    for y, each in zip(backward_peer.in_order(work, call()), exact.values(), strict=True):
        assert relative_error(to_array(y), each) < work.max_error


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Peer]]:
    """Return a function that lists a library's peers by name as if the library and a GPU were
    here."""
    monkeypatch.setattr(causal_conv1d_peer, "installed", lambda name: True)
    monkeypatch.setattr(causal_conv1d_peer, "set_up_torch", lambda kind: True)

    def found(library: str, **shape: Any) -> dict[str, Peer]:
        peers = ALL[library].BY_OPERATOR["conv1d"](workload(**shape), "cuda")
        return {peer.name: peer for peer in peers}

    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_causal_library_is_a_peer_in_both_layouts_of_depthwise_causal_layers(
    library: str, listed: Any
) -> None:
    for shape in ({}, {"layout": "NWC", "activation": "gelu", "residual": True}):
        found = listed(library, **shape)
        assert found.keys() == {f"{library} NCW", f"{library} NWC"}
        assert not any(isinstance(peer, Broken) for peer in found.values())
    assert listed(library, mode="same") == {}
    assert listed(library, groups=1) == {}
    assert list(LIBRARIES[library].BY_OPERATOR["conv1d"](workload(), "cpu")) == []


def test_causal_conv1d_is_a_peer_only_of_all_gradients_together(listed: Any) -> None:
    for shape in ({}, {"layout": "NWC", "activation": "silu", "bias": True}):
        found = listed("gradients", direction="backward", **shape)
        assert found.keys() == {"causal_conv1d NCW", "causal_conv1d NWC"}
        assert not any(isinstance(peer, Broken) for peer in found.values())
    for direction in ("backward_input", "backward_weight"):
        assert listed("gradients", direction=direction) == {}


@pytest.mark.parametrize("library", LIBRARIES)
def test_causal_library_that_is_not_installed_is_no_peer(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causal_conv1d_peer, "installed", lambda name: False)
    assert list(LIBRARIES[library].BY_OPERATOR["conv1d"](workload(), "cuda")) == []


@pytest.mark.parametrize(
    ("library", "shape", "layouts", "reason"),
    [
        ("causal_conv1d", {"N": 5}, BOTH, "it takes 2 to 4 taps"),
        ("causal_conv1d", {"C": 12}, ["NWC"], "multiples of 8 channels"),
        ("causal_conv1d", {"F": 32}, BOTH, "one kernel for each channel"),
        ("causal_conv1d", {"dilation": 2}, BOTH, "neither stride nor dilation"),
        ("causal_conv1d", {"stride": 2}, BOTH, "neither stride nor dilation"),
        ("gradients", {"direction": "backward", "N": 5}, BOTH, "it takes 2 to 4 taps"),
        ("gradients", {"direction": "backward", "activation": "gelu"}, BOTH, "supports is silu"),
        ("cudnn", {"N": 1}, BOTH, "it takes 2 to"),
        ("cudnn", {"N": 200, "M": 400}, ["NWC"], "it takes 2 to 128 taps"),
        ("cudnn", {"F": 32}, BOTH, "one kernel for each channel"),
    ],
)
def test_causal_library_names_the_reason_if_it_cannot_take_a_shape(
    library: str, shape: dict[str, Any], layouts: list[str], reason: str, listed: Any
) -> None:
    found = listed(library, **shape)
    refused = [name for name, peer in found.items() if isinstance(peer, Broken)]
    name = "causal_conv1d" if library == "gradients" else library
    assert refused == [f"{name} {layout}" for layout in layouts]
    for name in refused:
        with pytest.raises(Exception, match=reason):
            found[name].prepare()

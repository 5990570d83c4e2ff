"""What is handed to libraries for causal convolutions, and what they are not asked for. They need a
GPU; PyTorch on the CPU takes their place here."""

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
from tuner.peers.peer import Broken, Peer
from tuner.peers.pytorch_peer import signals_in_layout
from tuner.peers.torch_arrays import to_array, to_tensor

LIBRARIES = {"causal_conv1d": causal_conv1d_peer, "cudnn": cudnn_peer}
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
def test_a_library_gets_what_it_computes_and_pytorch_ends_it(
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


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Peer]]:
    """A library's peers by name, as if it and a GPU were here."""
    monkeypatch.setattr(causal_conv1d_peer, "installed", lambda name: True)
    monkeypatch.setattr(causal_conv1d_peer, "ready", lambda kind: True)

    def found(library: str, **shape: Any) -> dict[str, Peer]:
        peers = LIBRARIES[library].BY_OPERATOR["conv1d"](workload(**shape), "cuda")
        return {peer.name: peer for peer in peers}

    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_is_offered_in_both_layouts_for_what_it_is_for(library: str, listed: Any) -> None:
    for shape in ({}, {"layout": "NWC", "activation": "gelu", "residual": True}):
        found = listed(library, **shape)
        assert found.keys() == {f"{library} NCW", f"{library} NWC"}
        assert not any(isinstance(peer, Broken) for peer in found.values())
    assert listed(library, mode="same") == {}
    assert listed(library, groups=1) == {}
    assert list(LIBRARIES[library].BY_OPERATOR["conv1d"](workload(), "cpu")) == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_that_is_not_there_is_no_peer(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal_conv1d_peer, "installed", lambda name: False)
    assert list(LIBRARIES[library].BY_OPERATOR["conv1d"](workload(), "cuda")) == []


@pytest.mark.parametrize(
    ("library", "shape", "layouts", "reason"),
    [
        ("causal_conv1d", {"N": 5}, ["NCW", "NWC"], "it takes 2 to 4 taps"),
        ("causal_conv1d", {"C": 12}, ["NWC"], "multiples of 8 channels"),
        ("causal_conv1d", {"F": 32}, ["NCW", "NWC"], "one kernel for each channel"),
        ("causal_conv1d", {"dilation": 2}, ["NCW", "NWC"], "neither stride nor dilation"),
        ("causal_conv1d", {"stride": 2}, ["NCW", "NWC"], "neither stride nor dilation"),
        ("cudnn", {"N": 1}, ["NCW", "NWC"], "it takes 2 to"),
        ("cudnn", {"N": 200, "M": 400}, ["NWC"], "it takes 2 to 128 taps"),
        ("cudnn", {"F": 32}, ["NCW", "NWC"], "one kernel for each channel"),
    ],
)
def test_it_says_what_it_does_not_take(
    library: str, shape: dict[str, Any], layouts: list[str], reason: str, listed: Any
) -> None:
    found = listed(library, **shape)
    refused = [name for name, peer in found.items() if isinstance(peer, Broken)]
    assert refused == [f"{library} {layout}" for layout in layouts]
    for name in refused:
        with pytest.raises(Exception, match=reason):
            found[name].prepare()

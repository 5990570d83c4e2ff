"""The libraries beside which a best is shown compute what the workload asks for."""

from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d.reference import reference as conv1d_reference
from templates.depthwise_conv2d.reference import reference as depthwise_reference
from templates.workload import Workload
from tuner.measure.cases import CASES, draw
from tuner.measure.check import relative_error
from tuner.peers import peers
from tuner.peers.numpy_peer import NumpyPeer
from tuner.peers.peer import Peer
from tuner.peers.pytorch_peer import PytorchPeer

LENGTHS = [(1, 1), (9, 9), (33, 8), (100, 7), (101, 31)]
REFERENCES = {"conv1d": conv1d_reference, "depthwise_conv2d": depthwise_reference}


def workload(operator: str, **shape: Any) -> Workload:
    return templates.operator(operator).workload.model_validate(shape)


def errors(peer: Peer, work: Workload) -> list[float]:
    """The largest error on each kind of input."""
    found = []
    for name in CASES:
        x, w = draw(work, name, np.random.default_rng(3))
        exact = REFERENCES[work.operator](work, x, w)  # type: ignore[arg-type]
        kernel = peer.prepare(x, w)
        kernel.call()
        output = peer.output()
        assert output.shape == work.output_shape
        found.append(relative_error(output, exact))
    return found


@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("m", "n"), LENGTHS)
def test_numpy(m: int, n: int, mode: str, kind: str) -> None:
    work = workload("conv1d", M=m, N=n, mode=mode, kind=kind)
    (peer,) = (each for each in peers(work, "cpu") if isinstance(each, NumpyPeer))
    assert peer.name == f"numpy.{kind}"
    assert max(errors(peer, work)) < 1e-5


def test_numpy_has_no_depthwise_convolution() -> None:
    work = workload("depthwise_conv2d", B=1, C=2, H=5, W=6, K=3)
    assert [each for each in peers(work, "cpu") if isinstance(each, NumpyPeer)] == []


def test_a_peer_keeps_its_inputs() -> None:
    """They may be mapped from files that are gone when it is timed."""
    work = workload("conv1d", M=9, N=3)
    x, w = draw(work, "normal", np.random.default_rng(0))
    peer = NumpyPeer(work)  # type: ignore[arg-type]
    peer.prepare(x, w)
    before = peer.output()
    x[:], w[:] = 0, 0
    np.testing.assert_array_equal(peer.output(), before)


def test_a_shape_that_would_take_a_peer_seconds_has_none() -> None:
    assert list(peers(workload("conv1d", M=2**24, N=2**10), "cpu")) == []


@pytest.fixture
def torch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("m", "n"), LENGTHS)
def test_pytorch_1d(m: int, n: int, mode: str, kind: str) -> None:
    work = workload("conv1d", M=m, N=n, mode=mode, kind=kind)
    (peer,) = (each for each in peers(work, "cpu") if isinstance(each, PytorchPeer))
    assert peer.name == "pytorch"
    assert max(errors(peer, work)) < 1e-5


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("h", "w", "k"), [(1, 1, 1), (5, 6, 3), (9, 4, 7), (2, 3, 11)])
def test_pytorch_2d(h: int, w: int, k: int, stride: int) -> None:
    work = workload("depthwise_conv2d", B=2, C=3, H=h, W=w, K=k, stride=stride)
    found = [each for each in peers(work, "cpu") if isinstance(each, PytorchPeer)]
    assert [peer.name for peer in found] == ["pytorch NCHW", "pytorch NHWC"]
    for peer in found:
        assert max(errors(peer, work)) < 1e-5

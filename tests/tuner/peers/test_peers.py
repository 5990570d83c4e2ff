"""The peers compute what the workload asks for. They are timed in groups, and within a time
limit."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np
import pytest

import templates
from templates.conv1d.reference import reference as conv1d_reference
from templates.conv1d.workload import Mode
from templates.epilogue import Activation
from templates.workload import Workload
from tuner.device.cpu_facts import threads as host_threads
from tuner.measure.cases import CASES, draw
from tuner.measure.check import relative_error
from tuner.peers import (
    HOST,
    MAX_SECONDS,
    PYTORCH,
    TooSlow,
    cupy_peer,
    groups,
    peers,
    pytorch_compiled_peer,
    pytorch_fft_peer,
    pytorch_peer,
    scipy_peer,
    triton_peer,
)
from tuner.peers.numpy_peer import NumpyPeer
from tuner.peers.peer import Broken, Peer
from tuner.peers.pytorch_fft_peer import OverlapSavePeer, block_sizes, overlap_save
from tuner.peers.pytorch_peer import Form, PytorchPeer
from tuner.peers.scipy_peer import ScipyPeer
from tuner.peers.timing import fastest

LENGTHS = [(1, 1), (9, 9), (33, 8), (100, 7), (101, 31)]

one_dimensional = pytest.mark.parametrize(
    ("m", "n", "mode", "kind"),
    [
        (m, n, mode, kind)
        for m, n in [*LENGTHS, (1000, 2), (5000, 333), (1, 2), (4, 7), (7, 12)]
        for mode in get_args(Mode)
        for kind in ("convolve", "correlate")
        if n <= m or mode != "valid"
    ],
)


def workload(operator: str, **shape: Any) -> Any:
    return templates.operator(operator).workload.model_validate(shape)


HALVES = [
    ("conv1d", {"M": 1000, "N": 33, "mode": "same", "kind": "correlate"}),
    ("conv1d", {"M": 5, "N": 5}),
    ("depthwise_conv2d", {"B": 2, "C": 3, "H": 9, "W": 4, "K": 7, "stride": 2}),
]


each_group = pytest.mark.parametrize(
    "group", [HOST, pytest.param(PYTORCH, marks=pytest.mark.torch)]
)


def quickly_ready(work: Workload, group: str) -> list[Peer]:
    """Return a group's peers except those of torch.compile, which have their own tests."""
    slow = {peer.name for peer in pytorch_compiled_peer.BY_OPERATOR[work.operator](work, "cpu")}
    return [peer for peer in peers(work, "cpu", group) if peer.name not in slow]


def errors(peer: Peer, work: Workload) -> list[float]:
    """Return the peer's largest relative error in each of the test cases."""
    found = []
    for name in CASES:
        given = draw(work, name, np.random.default_rng(3))
        exact = templates.operator(work.operator).reference(work, *given)
        kernel = peer.prepare(*given)
        kernel.call()
        output = peer.output()
        assert output.shape == work.output.shape
        assert output.dtype == work.dtype
        found.append(relative_error(output, exact))
    return found


@one_dimensional
def test_numpy_peer_is_right(m: int, n: int, mode: str, kind: str) -> None:
    work = workload("conv1d", M=m, N=n, mode=mode, kind=kind)
    (peer,) = (each for each in peers(work, "cpu") if isinstance(each, NumpyPeer))
    assert peer.name == f"numpy.{kind}"
    assert max(errors(peer, work)) < 1e-5


@one_dimensional
def test_scipy_peers_are_right(m: int, n: int, mode: str, kind: str) -> None:
    pytest.importorskip("scipy", reason="SciPy is not installed")
    work = workload("conv1d", M=m, N=n, mode=mode, kind=kind)
    found = [each for each in peers(work, "cpu") if isinstance(each, ScipyPeer)]
    names = [f"scipy.{kind} direct", f"scipy.{kind} fft", "scipy.oaconvolve"]
    assert [peer.name for peer in found] == names
    for peer in found:
        assert max(errors(peer, work)) < 1e-5


@each_group
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("operator", "shape"), HALVES)
def test_peers_take_and_give_16_bit_floats(
    operator: str, shape: dict[str, Any], dtype: str, group: str
) -> None:
    work = workload(operator, **shape, dtype=dtype)
    for peer in quickly_ready(work, group):
        assert max(errors(peer, work)) < work.max_error


@each_group
@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize(("operator", "shape"), HALVES)
def test_peers_compute_the_workloads_epilogue(
    operator: str, shape: dict[str, Any], activation: str, group: str
) -> None:
    work = workload(operator, **shape, bias=True, residual=True, activation=activation)
    for peer in quickly_ready(work, group):
        assert max(errors(peer, work)) < 1e-5


def test_only_pytorch_is_a_peer_of_depthwise_convolution_on_a_cpu() -> None:
    work = workload("depthwise_conv2d", B=1, C=2, H=5, W=6, K=3)
    assert [each for each in peers(work, "cpu") if not isinstance(each, PytorchPeer)] == []


@each_group
def test_peer_copies_its_inputs(group: str) -> None:
    """A peer copies its inputs: they may be mapped from files that are gone when it is timed."""
    work = workload("conv1d", M=9, N=3)
    for peer in quickly_ready(work, group):
        x, w = draw(work, "normal", np.random.default_rng(0))
        peer.prepare(x, w)
        before = peer.output()
        x[:], w[:] = 0, 0
        np.testing.assert_array_equal(peer.output(), before)


@pytest.mark.parametrize(
    ("group", "by_transform", "direct"),
    [
        (HOST, "scipy.oaconvolve", ["numpy.convolve", "scipy.convolve direct"]),
        pytest.param(PYTORCH, "pytorch fft", ["pytorch"], marks=pytest.mark.torch),
    ],
)
def test_only_fourier_transform_peers_are_timed_if_others_would_take_seconds(
    group: str, by_transform: str, direct: list[str]
) -> None:
    """If direct convolution would take seconds, only peers by Fourier transform are timed. The
    other peers raise the reason."""
    work = workload("conv1d", M=2**24, N=2**10)
    found = {peer.name: peer for peer in peers(work, "cpu", group)}
    slow = {name: peer for name, peer in found.items() if isinstance(peer, Broken)}
    assert found.keys() - slow.keys() == {by_transform}
    assert 0 < found[by_transform].seconds <= MAX_SECONDS
    assert slow.keys() >= {*direct}
    with pytest.raises(TooSlow, match=r"a call would take about [0-9.]+ s; at most 1 is timed"):
        slow[direct[0]].prepare()


def test_estimated_time_of_a_peer_depends_on_its_device() -> None:
    """The estimated time of a peer depends on its device: a shape may be too slow for the CPU but
    not for the GPU."""
    slow = workload("depthwise_conv2d", B=32, C=128, H=56, W=56, K=31)
    form = Form(lambda *_: list, float16_on_cpu=1.0)
    costs = {kind: PytorchPeer(form, slow, kind, "NCHW").seconds for kind in ("cpu", "cuda")}
    assert costs["cuda"] < MAX_SECONDS < costs["cpu"]


def test_cupy_and_triton_are_no_peers_on_a_cpu() -> None:
    work = workload("conv1d", M=64, N=8)
    for module in (cupy_peer, triton_peer):
        assert list(module.BY_OPERATOR["conv1d"](work, "cpu")) == []


def test_library_that_is_not_installed_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scipy_peer, cupy_peer, triton_peer, pytorch_fft_peer):
        check = "set_up_torch" if module is pytorch_fft_peer else "installed"
        monkeypatch.setattr(module, check, lambda name: False)
        assert list(module.BY_OPERATOR["conv1d"](workload("conv1d", M=64, N=8), "cuda")) == []


def test_library_that_cannot_be_used_is_a_peer_that_raises_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(work: Workload, kind: str) -> Iterator[Peer]:
        raise OSError("libfft.so: wrong ELF class")

    monkeypatch.setitem(scipy_peer.BY_OPERATOR, "conv1d", faulty)
    found = {peer.name: peer for peer in peers(workload("conv1d", M=64, N=8), "cpu")}
    assert {"numpy.convolve", "scipy"} <= found.keys()
    with pytest.raises(OSError, match="wrong ELF class"):
        found["scipy"].prepare(np.zeros(64, np.float32), np.zeros(8, np.float32))


@pytest.mark.parametrize(("m", "n"), [*LENGTHS, (16384, 32), (10**6, 2047), (2**22, 2**16)])
@pytest.mark.parametrize("mode", get_args(Mode))
def test_block_sizes_are_powers_of_two_that_hold_the_kernel(m: int, n: int, mode: str) -> None:
    work = workload("conv1d", M=m, N=n, mode=mode)
    sizes = block_sizes(work)
    assert 1 <= len(sizes) <= 7
    assert sizes == sorted(set(sizes))
    assert all(size & (size - 1) == 0 and size >= work.N for size in sizes)
    assert sizes[-1] >= work.length + work.N - 1  # the largest block holds the whole signal


def pytorch_peers(work: Workload, *names: str) -> list[PytorchPeer]:
    """Return PyTorch's peers of the workload. They must have these names and, if the CPU has
    several threads, also these names with "1 thread"."""
    found: Any = list(pytorch_peer.BY_OPERATOR[work.operator](work, "cpu"))
    alone = [f"{name} 1 thread" for name in names] if host_threads() > 1 else []
    assert [peer.name for peer in found] == [*names, *alone]
    return found


@pytest.mark.torch
@one_dimensional
def test_pytorch_peers_of_conv1d_are_right(m: int, n: int, mode: str, kind: str) -> None:
    work = workload("conv1d", M=m, N=n, mode=mode, kind=kind)
    for peer in pytorch_peers(work, "pytorch"):
        assert max(errors(peer, work)) < 1e-5


@pytest.mark.torch
@one_dimensional
def test_pytorch_overlap_save_is_right_with_every_block_size(
    m: int, n: int, mode: str, kind: str
) -> None:
    import torch

    work = workload("conv1d", M=m, N=n, mode=mode, kind=kind)
    x, w = draw(work, "normal", np.random.default_rng(3))
    exact = conv1d_reference(work, x, w)
    for size in block_sizes(work):
        output = overlap_save(work, torch.from_numpy(x), torch.from_numpy(w), size).numpy()
        assert output.shape == work.output.shape
        assert relative_error(output, exact) < 1e-5


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["convolve", "correlate"])
def test_pytorch_overlap_save_peer_chooses_one_of_its_block_sizes(kind: str) -> None:
    work = workload("conv1d", M=3001, N=100, mode="same", kind=kind)
    (peer,) = (each for each in peers(work, "cpu") if isinstance(each, OverlapSavePeer))
    assert peer.name == "pytorch fft"
    assert max(errors(peer, work)) < 1e-5
    assert peer.block in block_sizes(work)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("shape", "served"),
    [
        ({"B": 3, "C": 4, "M": 500, "N": 500, "mode": "causal", "kind": "correlate"}, True),
        ({"B": 2, "C": 3, "F": 6, "M": 700, "N": 64}, True),
        ({"B": 2, "C": 3, "F": 6, "M": 300, "N": 700, "kind": "correlate"}, True),
        ({"B": 1, "C": 3, "M": 64, "N": 901, "mode": "same"}, True),
        ({"B": 2, "C": 3, "M": 63, "N": 901}, False),
        ({"B": 2, "C": 3, "M": 700, "N": 63}, False),
        ({"B": 2, "C": 3, "M": 700, "N": 64, "stride": 2}, False),
        ({"B": 2, "C": 3, "M": 700, "N": 64, "bias": True}, False),
    ],
)
def test_pytorch_fft_is_a_peer_of_several_signals_only_with_long_kernels(
    shape: dict[str, Any], served: bool
) -> None:
    work = workload("conv1d", **shape)
    found = [peer for peer in peers(work, "cpu") if isinstance(peer, OverlapSavePeer)]
    assert len(found) == served
    for peer in found:
        assert max(errors(peer, work)) < 1e-5


@pytest.mark.torch
@pytest.mark.parametrize("layout", ["NCW", "NWC"])
@pytest.mark.parametrize(
    "shape",
    [
        {"B": 2, "C": 6, "M": 50, "N": 4, "mode": "causal", "activation": "silu", "bias": True},
        {"B": 2, "C": 6, "F": 12, "M": 50, "N": 3, "padding": (0, 4), "dilation": 2},
        {"B": 3, "C": 4, "F": 10, "groups": 1, "M": 33, "N": 5, "stride": 2, "mode": "same"},
        {"F": 5, "M": 64, "N": 9, "mode": "valid", "residual": True, "kind": "correlate"},
    ],
)
def test_pytorch_peers_of_several_signals_are_right_in_both_layouts(
    shape: dict[str, Any], layout: str
) -> None:
    work = workload("conv1d", **shape, layout=layout)
    for peer in pytorch_peers(work, "pytorch NCW", "pytorch NWC"):
        assert max(errors(peer, work)) < 1e-5


@pytest.mark.torch
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("h", "w", "k"), [(1, 1, 1), (5, 6, 3), (9, 4, 7), (2, 3, 11)])
def test_pytorch_peers_of_depthwise_conv2d_are_right(h: int, w: int, k: int, stride: int) -> None:
    work = workload("depthwise_conv2d", B=2, C=3, H=h, W=w, K=k, stride=stride)
    for peer in pytorch_peers(work, "pytorch NCHW", "pytorch NHWC"):
        assert max(errors(peer, work)) < 1e-5


@pytest.mark.torch
def test_pytorch_peers_switch_between_all_threads_and_one() -> None:
    import torch

    work = workload("conv1d", M=64, N=8)
    x, w = draw(work, "normal", np.random.default_rng(5))
    torch.set_num_threads(1)
    calls = {peer.name: peer.prepare(x, w).call for peer in quickly_ready(work, PYTORCH)}
    for _ in range(2):
        for name, threads in (("pytorch", host_threads()), ("pytorch 1 thread", 1)):
            if name in calls:
                calls[name]()
                assert torch.get_num_threads() == threads


def test_fastest_returns_the_index_of_the_fastest_call() -> None:
    def taking(work: int) -> Callable[[], Any]:
        return lambda: sum(range(work))

    assert fastest([taking(300_000), taking(10), taking(100_000)], "cpu") == 1
    assert fastest([taking(10)], "cuda") == 0  # a single call is not measured


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_each_peer_is_in_exactly_one_group(kind: str) -> None:
    """On a CPU no peer shares the libraries' process, and PyTorch has a process for itself."""
    work = workload("conv1d", M=64, N=8)
    by_group = {group: [peer.name for peer in peers(work, kind, group)] for group in groups(kind)}
    together = [name for names in by_group.values() for name in names]
    assert sorted(together) == sorted(peer.name for peer in peers(work, kind))
    assert "numpy.convolve" in by_group["host"]
    if kind == "cpu":
        assert {name.split()[0] for name in by_group["pytorch"]} == {"pytorch"}
        assert "device" not in by_group

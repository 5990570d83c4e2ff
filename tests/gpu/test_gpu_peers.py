"""Peers on the GPU are right in every mode, are timed on the clock's stream, and all take part in
the last round. Failures name the peer."""

import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d.reference import reference as conv1d_reference
from tuner.build.builder import Builder
from tuner.build.compile import EMPTY, EMPTY_WORKLOAD, BuildOrder
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.measure.cases import draw
from tuner.measure.check import relative_error
from tuner.measure.cuda_clock import CudaClock
from tuner.peers import groups, peers
from tuner.peers.cupy_peer import CupyPeer
from tuner.peers.peer import Broken, Peer, installed
from tuner.peers.pytorch_peer import PytorchPeer
from tuner.peers.triton_peer import TritonPeer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # warnings of other libraries must not fail the tests
]

LIBRARIES = {
    "torch": {"pytorch", "pytorch fft", "pytorch compiled"},
    "cupy": {"cupy.convolve", "cupyx.convolve direct", "cupyx.fftconvolve", "cupyx.oaconvolve"},
    "triton": {"triton"},
    "scipy": {"scipy.convolve direct", "scipy.convolve fft", "scipy.oaconvolve"},
}
EXPECTED = {"numpy.convolve"}.union(*(LIBRARIES[name] for name in LIBRARIES if installed(name)))
SHAPES = [
    {"M": m, "N": n, "mode": mode, "kind": kind}
    for m, n in [(1, 1), (33, 8), (5001, 333), (8, 33)]
    for mode in ("full", "same", "valid")
    for kind in ("convolve", "correlate")
    if n <= m or mode != "valid"
]
IMAGE = {"B": 2, "C": 32, "H": 15, "W": 20}
LARGE = {"M": 1_000_000, "N": 2047, "mode": "valid"}


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    """Reset torch.compile after each test, as it compiles one function for only a few shapes."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].compiler.reset()


def workload(operator: str, shape: dict[str, Any]) -> Any:
    return templates.operator(operator).workload.model_validate(shape)


def plain(name: str) -> str:
    """Return a peer's name without its suffixes ``launched`` and ``tf32``."""
    return name.removesuffix(" launched").removesuffix(" tf32")


def prepared(work: Any) -> Iterator[tuple[Peer, Any, float]]:
    """Yield every peer that is not broken, with its kernel and the relative error of its output.

    A peer that raises fails the test.
    """
    given = draw(work, "normal", np.random.default_rng(5))
    exact = templates.operator(work.operator).reference(work, *given)
    for peer in peers(work, "cuda"):
        if isinstance(peer, Broken):
            continue  # test_every_library_that_is_installed_can_be_used fails on these
        try:
            kernel, output = peer.prepare(*given), peer.output()
        except Exception as error:
            pytest.fail(f"{peer.name} on {work.key}: {type(error).__name__}: {error}")
        assert output.shape == work.output.shape, peer.name
        yield peer, kernel, relative_error(output, exact)


@pytest.mark.parametrize("operator", ["conv1d", "depthwise_conv2d"])
def test_peers_compute_the_epilogue_of_the_workload(operator: str) -> None:
    shapes = {"conv1d": {"M": 5001, "N": 333}, "depthwise_conv2d": {**IMAGE, "K": 3}}
    ends = {"bias": True, "residual": True, "activation": "gelu"}
    errors = {
        p.name: error for p, _, error in prepared(workload(operator, shapes[operator] | ends))
    }
    assert any(name.startswith("pytorch") for name in errors) == installed("torch")
    assert {name: error for name, error in errors.items() if not error < 1e-5} == {}


def test_every_library_that_is_installed_can_be_used() -> None:
    found = list(peers(workload("conv1d", {"M": 64, "N": 8}), "cuda"))
    broken = {each.name: repr(each._error) for each in found if isinstance(each, Broken)}
    assert broken == {}
    shifts = {"pytorch compiled shifts"} if installed("torch") else set()
    assert {plain(each.name) for each in found} == EXPECTED | shifts


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_peers_are_right_on_signals(shape: dict[str, Any]) -> None:
    errors = {peer.name: error for peer, _, error in prepared(workload("conv1d", shape))}
    assert {name: error for name, error in errors.items() if not error < 1e-5} == {}


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.torch
def test_peers_are_right_on_causal_signals_of_channels(layout: str, dtype: str) -> None:
    ends = {"mode": "causal", "bias": True, "activation": "silu"}
    shape = {"B": 2, "C": 64, "M": 1000, "N": 4, "layout": layout, "dtype": dtype, **ends}
    work = workload("conv1d", shape)
    errors = {peer.name: error for peer, _, error in prepared(work)}
    libraries = ["pytorch", "pytorch compiled", *filter(installed, ["causal_conv1d", "cudnn"])]
    names = {f"{library} {each}" for library in libraries for each in ("NCW", "NWC")}
    assert {*names, "pytorch compiled shifts"} <= errors.keys()
    # some peers also round the sums before the activation, so twice the error is allowed
    assert {name: error for name, error in errors.items() if not error < 2 * work.max_error} == {}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("k", [3, 7])
@pytest.mark.torch
def test_peers_are_right_on_images(k: int, stride: int) -> None:
    shape = {**IMAGE, "K": k, "stride": stride}
    errors = {peer.name: error for peer, _, error in prepared(workload("depthwise_conv2d", shape))}
    names = {"pytorch NCHW", "pytorch NHWC", "pytorch compiled NCHW", "pytorch compiled NHWC"}
    assert errors.keys() == names
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize(
    ("operator", "shape"),
    [
        ("conv1d", {"M": 5001, "N": 333, "mode": "same", "kind": "correlate"}),
        ("depthwise_conv2d", {"B": 2, "C": 32, "H": 15, "W": 20, "K": 7, "stride": 2}),
    ],
)
def test_peers_are_right_in_float16(operator: str, shape: dict[str, Any]) -> None:
    work = workload(operator, shape | {"dtype": "float16"})
    errors = {peer.name: error for peer, _, error in prepared(work)}
    assert {name: error for name, error in errors.items() if not error < 1e-3} == {}


@pytest.fixture(scope="module")
def clock() -> CudaClock:
    return CudaClock(cache_bytes=2**26, set_bytes=2**23)


@pytest.mark.parametrize("shape", [{"M": 16384, "N": 32}, LARGE], ids=["small", "large"])
def test_times_of_peers_include_their_work(shape: dict[str, Any], clock: CudaClock) -> None:
    """Every graph takes longer than an empty one would, so it contains the peer's work."""
    work, least = workload("conv1d", shape), {16384: 4e-7, 1_000_000: 2e-6}[shape["M"]]
    table = {}
    for peer, kernel, error in prepared(work):
        if kernel.graphed is None:
            continue
        assert error < 1e-5, peer.name
        try:
            sampler = clock.warm(kernel, 20e-3)
            sampler.sample()
            time = min(sampler.sample() for _ in range(3))
        except Exception as failure:
            pytest.fail(f"{peer.name}: {type(failure).__name__}: {failure}")
        table[peer.name] = round(time * 1e6, 2)
        chosen = {each: getattr(peer, each) for each in ("block", "warps") if hasattr(peer, each)}
        print(f"{peer.name:28}{time * 1e6:10.2f} µs {sampler.calls:4} calls {error:.1e} {chosen}")
    assert {name: time for name, time in table.items() if not time * 1e-6 > least} == {}


@pytest.mark.torch
def test_sample_of_the_clock_computes_the_output_again(clock: CudaClock) -> None:
    """After the output is overwritten, a sample of the clock computes it again."""
    import torch

    pytest.importorskip("triton", reason="Triton is not installed")
    work = workload("conv1d", {"M": 5001, "N": 333, "mode": "same"})
    x, w = draw(work, "normal", np.random.default_rng(5))
    peer = TritonPeer(work)
    sampler = clock.warm(peer.prepare(x, w), 1e-3)
    peer._y.fill_(float("nan"))
    torch.cuda.synchronize()
    sampler.sample()
    assert relative_error(peer._y.cpu().numpy(), conv1d_reference(work, x, w)) < 1e-5


@pytest.mark.torch
def test_a_graph_keeps_the_tensors_that_it_reads(clock: CudaClock) -> None:
    """PyTorch would otherwise give their memory back to the driver before it captures the next
    graph."""
    work = workload("conv1d", {"M": 5001, "N": 333, "mode": "same"})
    peer = next(each for each, *_ in prepared(work) if isinstance(each, PytorchPeer))
    kernel = peer.prepare(*draw(work, "normal", np.random.default_rng(5)))
    sampler, alive = clock.warm(kernel, 1e-3), weakref.ref(peer)
    del peer, kernel
    gc.collect()
    assert alive() is not None
    assert sampler.sample() > 0


def test_cupy_is_right_after_its_graphs_ran(clock: CudaClock) -> None:
    """A replayed graph writes to the addresses that it was captured with, so no other array may get
    that memory."""
    pytest.importorskip("cupy", reason="CuPy is not installed")
    work = workload("conv1d", {"M": 50_001, "N": 333, "mode": "same"})
    ready = [each for each in prepared(work) if isinstance(each[0], CupyPeer)]
    samplers = [clock.warm(kernel, 1e-3) for _, kernel, _ in ready]
    for _ in range(3):
        for sampler in samplers:
            sampler.sample()
    x, w = draw(work, "normal", np.random.default_rng(5))
    exact = conv1d_reference(work, x, w)
    errors = {peer.name: relative_error(peer.output(), exact) for peer, _, _ in ready}
    assert len(errors) == 4
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize("operator", ["conv1d", "depthwise_conv2d"])
@pytest.mark.parametrize("max_error", [1e-5, 1e-2])
@pytest.mark.torch
def test_pytorch_peers_use_tf32_only_if_max_error_admits_it(
    operator: str, max_error: float
) -> None:
    shapes: dict[str, dict[str, Any]] = {
        "conv1d": LARGE,
        "depthwise_conv2d": {"B": 8, "C": 64, "H": 56, "W": 56, "K": 7},
    }
    work = workload(operator, shapes[operator] | {"max_error": max_error})
    found = {p.name: error for p, _, error in prepared(work) if isinstance(p, PytorchPeer)}
    assert found
    for name, error in found.items():
        if name.endswith(" tf32"):
            assert 1e-6 < error <= max_error == 1e-2, found
        else:
            assert error < 1e-5, found


@pytest.mark.parametrize("shape", [{"M": 16384, "N": 32}, LARGE], ids=["small", "large"])
def test_all_peers_take_part_in_the_last_round(
    shape: dict[str, Any], device: Device, tmp_path: Path
) -> None:
    work, library = workload("conv1d", shape), tmp_path / "empty.so"
    with Builder(workers=1) as builder:
        order = BuildOrder(EMPTY_WORKLOAD.key, EMPTY, None, device.target, library)
        built = builder.submit(order).result()
    assert built.status == "ok", built.error
    with Runner(work.key, device) as runner:
        found = runner.compare({"empty": library}, groups=groups("cuda"))
    assert found.dropped == {}
    assert {plain(name) for name in found.entries} - {"empty"} == EXPECTED
    for name, entry in found.entries.items():
        warm = entry.timing["warm"]
        print(f"{name:28}{warm['median_us']:12.2f} µs  {entry.max_error}")
        assert 0 < warm["p10_us"] <= warm["median_us"] <= warm["p90_us"], name
        assert name == "empty" or (entry.max_error is not None and entry.max_error < 1e-5), name

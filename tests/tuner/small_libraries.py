"""Build libraries of small workloads, serial and parallel, with the files that a worker would leave
beside them. The names in the tables below are the workloads' names in all tests."""

from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

import templates
from templates.dtypes import in_numpy
from templates.naive import naive_on
from templates.template import Config
from templates.workload import Workload
from tuner.build.builder import COMPILER
from tuner.build.compile import BuildOrder, build, program_of
from tuner.device.detect import detect
from tuner.device.device import Device
from tuner.job import artifact
from tuner.library.signing_key import default_path, own_key
from tuner.measure.cases import Array
from tuner.process.child import Child
from tuner.settings import Settings

WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("conv1d", {"M": 16384, "N": 32}),
    "same": ("conv1d", {"M": 1001, "N": 7, "mode": "same", "kind": "correlate"}),
    "half": (
        "conv1d",
        {"M": 1001, "N": 7, "mode": "same", "kind": "correlate", "dtype": "float16"},
    ),
    "bfloat16": (
        "conv1d",
        {"M": 1001, "N": 7, "mode": "same", "kind": "correlate", "dtype": "bfloat16"},
    ),
    "depthwise": ("depthwise_conv2d", {"B": 2, "C": 3, "H": 9, "W": 20, "K": 3}),
    "last": (
        "depthwise_conv2d",
        {"B": 2, "C": 6, "H": 9, "W": 20, "KH": 3, "KW": 5, "layout": "NHWC"}
        | {"padding": [0, 2, 1, 2]},
    ),
    "signals": (
        "conv1d",
        {"B": 2, "C": 4, "M": 61, "F": 8, "N": 5, "kind": "correlate", "padding": [6, 6]}
        | {"stride": 2, "dilation": 3},
    ),
    "dense": (
        "conv1d",
        {"B": 2, "C": 4, "M": 61, "F": 6, "N": 5, "kind": "correlate", "mode": "same"}
        | {"groups": 1, "layout": "NWC"},
    ),
}
BIASED = {
    "biased": (
        "depthwise_conv2d",
        {"B": 2, "C": 6, "H": 7, "W": 9, "K": 3, "layout": "NHWC", "bias": True},
    ),
    "causal": (
        "conv1d",
        {"B": 2, "C": 4, "M": 61, "N": 4, "kind": "correlate", "mode": "causal"}
        | {"bias": True, "activation": "silu"},
    ),
}
"""Workloads that take a bias beside input and weight."""
_LAST = BIASED["biased"][1]
_CAUSAL = BIASED["causal"][1]
GRADIENTS = {
    "imagesinput": (
        "depthwise_conv2d",
        WORKLOADS["depthwise"][1] | {"direction": "backward_input"},
    ),
    "imagesweight": (
        "depthwise_conv2d",
        WORKLOADS["depthwise"][1] | {"direction": "backward_weight"},
    ),
    "lastinput": ("depthwise_conv2d", _LAST | {"direction": "backward_input"}),
    "lastweight": ("depthwise_conv2d", _LAST | {"direction": "backward_weight"}),
    "sameweight": ("conv1d", WORKLOADS["same"][1] | {"direction": "backward_weight"}),
    "causalinput": ("conv1d", _CAUSAL | {"direction": "backward_input"}),
    "causalweight": ("conv1d", _CAUSAL | {"direction": "backward_weight"}),
}
"""The gradients of ``depthwise`` and of the BIASED workloads, and that of ``same``'s weight."""
SUMS = {"causalsums": ("conv1d", _CAUSAL | {"activation": "none"})}
"""The sums of ``causal``, from which its gradients tell the activation's derivative."""
AT_ONCE = {"causalbackward": ("conv1d", _CAUSAL | {"direction": "backward"})}
"""All gradients of ``causal`` in one program."""
CALLED = {
    "mixed": (
        "conv1d",
        {"B": 2, "C": 6, "M": 9, "N": 4, "kind": "correlate", "mode": "causal"}
        | {"bias": True, "layout": "NWC"},
    ),
}
"""Workloads that the tests' models call as a function."""
GATED = {"gates": ("conv1d", CALLED["mixed"][1] | {"gated": True})}
"""``mixed`` between gates."""
FEW = {
    "negative": (
        "conv1d",
        {"M": 2, "N": 2, "mode": "valid", "kind": "correlate"} | {"activation": "relu"},
    ),
    "padding": ("conv1d", {"M": 7, "N": 2, "stride": 65536, "padding": [3, 4]}),
}
"""Workloads with a single output value, which is often zero (relu) or always (all padding)."""
THREADING = ("serial", "parallel")
SOURCE, RECORD = "; assembly", {"trace": []}


def workload(name: str) -> Workload:
    """Return the workload of that name in one of the tables above."""
    operator, shape = (WORKLOADS | BIASED | GRADIENTS | SUMS | AT_ONCE | CALLED | GATED | FEW)[name]
    return templates.operator(operator).workload.model_validate(shape)


def build_all(folder: Path) -> dict[str, Path]:
    """Build all libraries into the folder; return their paths by name: ``full-serial``,
    ``full-parallel``, …

    A manifest lies beside each, signed by this machine's own key. The compiler runs in a child
    process, so that tests can show that this process does without it."""
    child = Child(importing=COMPILER)
    try:
        device = child.call(detect, "cpu", timeout=60)
        return {
            f"{name}-{threading}": built(child, folder / f"{name}-{threading}.so", device)
            for name in (*WORKLOADS, *BIASED)
            for threading in THREADING
        } | {
            f"{name}-serial": built(child, folder / f"{name}-serial.so", device)
            for name in (*GRADIENTS, *SUMS, *AT_ONCE, *CALLED, *GATED)
        }
    finally:
        child.close()


def built(child: Child, path: Path, device: Device) -> Path:
    """Build the library that ``path`` names, such as ``full-serial.so``, in the child; write its
    manifest and signature beside it, and return the path."""
    name, threading = path.stem.split("-")
    work = workload(name)
    found = templates.templates_for(work, device.limits)
    template: Any = found[0] if found else naive_on("cpu")
    config = template.config() if not found else template.default(work, device.limits)
    config = {**config, "threading": threading}
    order = BuildOrder(work.key, program_of(template), config, device.target, path)
    done = child.call(build, order, Settings().build_cache, timeout=60)
    assert done.status == "ok", done.error
    describe(path, work, device, template, config)
    return path


def describe(
    path: Path, work: Workload, device: Device, template: Any, config: Config, workspace: int = 0
) -> None:
    """Write a manifest for the library at ``path``, and its signature, beside it."""
    described = artifact.manifest(
        work,
        device,
        config=config,
        template_version=template.version,
        threads=template.threads(config, device.limits),
        versions={},
        timing={"warm": {"median": 20.0}},
        max_error=1e-7,
        named=artifact.files(device.kind, path.read_bytes(), SOURCE, RECORD),
        workspace=workspace,
    )
    seal(path, described)


def seal(path: Path, described: dict[str, Any], key: Ed25519PrivateKey | None = None) -> None:
    """Write the manifest ``described`` beside the library, and its signature. ``key`` signs it; if
    None, this machine's own key does."""
    made = artifact.signed_manifest(described, key or own_key(default_path()))
    for file, suffix in zip(made, (".json", ".sig"), strict=True):
        path.with_suffix(suffix).write_bytes(file.content)


def arrays(work: Workload, seed: int = 0) -> tuple[Array, Array]:
    """Return a random input and weight, in the shapes and dtypes of the workload."""
    draw = np.random.default_rng(seed)
    x, w = (
        draw.standard_normal(argument.shape).astype(in_numpy(argument.dtype))
        for argument in work.inputs
    )
    return x, w


def expected(name: str, x: Array, w: Array) -> NDArray[np.float64]:
    """Return the named workload's output in float64. The formulas are independent of the project's
    own references."""
    x, w = x.astype("f8"), w.astype("f8")
    if name == "full":
        return np.convolve(x, w)
    if name in ("same", "half", "bfloat16"):
        return np.correlate(x, w, "same")
    if name == "signals":  # four channels with two kernels each, stride 2, dilation 3
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(x, [(0, 0)] * 2 + [(6, 6)]), 13, 2
        )
        return np.einsum("bcit,ct->bci", np.repeat(windows[:, :, ::2, ::3], 2, axis=1), w[:, 0])
    if name == "dense":
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(x, [(0, 0), (2, 2), (0, 0)]), 5, 1
        )
        return np.einsum("bict,fct->bif", windows, w)
    last = name == "last"
    planes, sides = (np.moveaxis(x, 3, 1), ((0, 1), (2, 2))) if last else (x, ((1, 1), (1, 1)))
    padded = np.pad(planes, ((0, 0), (0, 0), *sides))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    summed: NDArray[np.float64] = np.einsum("bchwij,cij->bchw", windows, w[:, 0])
    return np.moveaxis(summed, 1, 3) if last else summed


def error(y: Array, reference: NDArray[np.float64]) -> float:
    """Return max|y - ref| / max|ref|, or NaN if y has a NaN."""
    return float(np.abs(y - reference).max() / np.abs(reference).max())

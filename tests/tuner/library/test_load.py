"""Load libraries and call them on NumPy arrays and PyTorch tensors; damaged files and unfit tensors
are refused."""

import copy
import ctypes
import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from fresh import run
from small_libraries import THREADING, WORKLOADS, arrays, error, expected, seal, workload

from tests.tuner.library.unaligned import called_at_all_offsets
from tuner.device import cpu_facts
from tuner.errors import (
    BrokenArtifact,
    ForeignDevice,
    MissingRuntime,
    TunerError,
    UntrustedSigner,
    WrongArgument,
    WrongDevice,
    WrongDtype,
    WrongLayout,
    WrongShape,
)
from tuner.library import tensors
from tuner.library.load import load
from tuner.peers.torch_arrays import to_array, to_tensor
from tuner.process.child import Child

BUILT = [f"{name}-{threading}" for name in WORKLOADS for threading in THREADING]
HEAVY = ("tvm", "xgboost", "sqlalchemy", "fastapi", "httpx2")


@pytest.mark.parametrize("built", BUILT)
def test_library_computes_the_right_output(libraries: dict[str, Path], built: str) -> None:
    name = built.partition("-")[0]
    work = workload(name)
    x, w = arrays(work)
    y = load(libraries[built])(x, w)
    assert (y.shape, y.dtype) == (work.output.shape, work.dtype)
    assert error(y, expected(name, x, w)) < work.max_error


def test_library_writes_to_a_given_output(libraries: dict[str, Path]) -> None:
    x, w = arrays(workload("full"))
    out = np.full(workload("full").output.shape, np.nan, np.float32)
    assert load(libraries["full-serial"])(x, w, out) is out
    assert error(out, expected("full", x, w)) < 1e-5


def test_manifest_has_the_signature_of_the_function(libraries: dict[str, Path]) -> None:
    signature = load(libraries["depthwise-serial"]).manifest["signature"]
    common = {"dtype": "float32", "layout": "NCHW"}
    assert signature == {
        "function": "main",
        "arguments": [
            {"name": "input", "shape": [2, 3, 9, 20], "role": "input"} | common,
            {"name": "weight", "shape": [3, 1, 3, 3], "role": "weight"}
            | common
            | {"layout": "OIHW"},
            {"name": "output", "shape": [2, 3, 9, 20], "role": "output"} | common,
        ],
    }


def test_manifest_of_the_previous_release_loads(libraries: dict[str, Path], tmp_path: Path) -> None:
    """The previous release's manifests give arguments no role and no layout."""
    signature = described(libraries)["signature"]
    for argument in signature["arguments"]:
        del argument["role"], argument["layout"]
    x, w = arrays(workload("full"))
    y = load(doctored(libraries, tmp_path, signature=signature))(x, w)
    assert error(y, expected("full", x, w)) < 1e-5


@pytest.mark.parametrize("built", BUILT)
def test_library_needs_no_alignment_beyond_that_of_an_element(
    libraries: dict[str, Path], built: str
) -> None:
    """The calls run in a child process, because a wrongly assumed alignment would end the
    process."""
    with closing(Child(importing=("tuner.library.load",))) as child:
        assert child.call(called_at_all_offsets, libraries[built], timeout=60) == 48


def test_calling_a_library_imports_neither_compiler_nor_service(libraries: dict[str, Path]) -> None:
    code = f"""
import sys
from pathlib import Path
import numpy as np
from tuner.library.load import load
from tuner.peers.torch_arrays import to_array, to_tensor
y = load(Path(sys.argv[1]))(np.ones(16384, np.float32), np.ones(32, np.float32))
print(y.max(), [name for name in {HEAVY} if name in sys.modules])
"""
    assert run(code, libraries["full-parallel"]) == "32.0 []"


@pytest.mark.parametrize("first", ["import tvm", "pass"])
def test_library_and_tvms_compiler_work_in_one_process(
    libraries: dict[str, Path], first: str
) -> None:
    code = f"""
{first}
import sys
from pathlib import Path
import numpy as np
from tuner.library.load import load
from tuner.peers.torch_arrays import to_array, to_tensor
x, w = np.ones(16384, np.float32), np.ones(32, np.float32)
before = load(Path(sys.argv[1]))(x, w)
import tvm
from tvm import te
a = te.placeholder((4,), name="a")
twice = tvm.compile(te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 2)]), "llvm")
y = tvm.runtime.empty((4,), "float32")
twice["main"](tvm.runtime.tensor(np.ones(4, np.float32)), y)
print(before.max(), load(Path(sys.argv[1]))(x, w).max(), y.numpy().max())
"""
    assert run(code, libraries["full-parallel"]) == "32.0 32.0 2.0"


def test_copy_of_a_library_is_itself_and_pickling_is_refused(libraries: dict[str, Path]) -> None:
    library = load(libraries["full-serial"])
    assert copy.copy(library) is copy.deepcopy(library) is library
    with pytest.raises(TypeError, match=r"can't be pickled: load .*\.so"):
        pickle.dumps(library)


def test_threads_may_call_one_library(libraries: dict[str, Path]) -> None:
    library = load(libraries["full-parallel"])
    cases = [arrays(library.workload, seed) for seed in range(16)]
    with ThreadPoolExecutor(4) as threads:
        outputs = list(threads.map(lambda case: library(*case), cases))
    for (x, w), y in zip(cases, outputs, strict=True):
        assert error(y, expected("full", x, w)) < 1e-5


X, W = arrays(workload("same"))
OUT = np.zeros(1001, np.float32)
READ_ONLY = OUT.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("x", "w", "out", "kind", "says"),
    [
        (X[:-1], W, None, WrongShape, r"input must have shape \(1001,\), but has \(1000,\)"),
        (X[None], W, None, WrongShape, r"input must have shape .* has \(1, 1001\)"),
        (W, X, None, WrongShape, r"input must have shape \(1001,\), but has \(7,\)"),
        (X, W[:6], None, WrongShape, r"weight must have shape \(7,\), but has \(6,\)"),
        (X, W, OUT[:-1], WrongShape, r"output must have shape \(1001,\), but has \(1000,\)"),
        (X.astype("f8"), W, None, WrongDtype, "input must be float32, but is float64"),
        (X, W.astype("i4"), None, WrongDtype, "weight must be float32, but is int32"),
        (X, W, OUT.astype("f2"), WrongDtype, "output must be float32, but is float16"),
        (X.astype(">f4"), W, None, WrongDtype, "input must be float32, but is >f4"),
        (np.repeat(X, 2)[::2], W, None, WrongLayout, r"input must be contiguous.*\(2,\)"),
        (X, W[::-1], None, WrongLayout, r"weight must be contiguous.*\(-1,\)"),
        (X, W, READ_ONLY, WrongLayout, "output can't be passed on.*give another.*readonly"),
        (X, W, np.repeat(OUT, 2)[::2], WrongLayout, r"strides \(2,\); give a contiguous one"),
        (X, W, X, WrongLayout, "output must not share memory with input"),
        (list(X), W, None, WrongArgument, "input must be a NumPy array.*but is a list"),
        (X, None, None, WrongArgument, "weight must be a NumPy array.*but is a NoneType"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    libraries: dict[str, Path], *, x: Any, w: Any, out: Any, kind: type[TunerError], says: str
) -> None:
    library = load(libraries["same-serial"])
    before = None if out is None else out.copy()
    with pytest.raises(kind, match=says) as raised:
        library(x, w, out)
    assert type(raised.value) is kind
    if out is not None:
        np.testing.assert_array_equal(out, before)


def test_an_array_on_another_device_is_refused() -> None:
    with pytest.raises(WrongDevice, match="input must be on cuda, but is on cpu:0; move it"):
        tensors.checked_view(workload("same").arguments[0], X, "cuda")


def test_output_that_overlaps_the_input_is_refused(libraries: dict[str, Path]) -> None:
    memory = np.zeros(2002, np.float32)
    library = load(libraries["same-serial"])
    assert not library(memory[:1001], W, memory[1001:]).any()
    with pytest.raises(WrongLayout, match="output must not share memory with input"):
        library(memory[:1001], W, memory[1000:2001])


def test_tvm_tensor_as_input_needs_a_given_output(libraries: dict[str, Path]) -> None:
    library = load(libraries["same-serial"])
    x = tvm_ffi.from_dlpack(X)
    with pytest.raises(WrongArgument, match="give the output too"):
        library(x, W)
    out = np.empty_like(OUT)
    assert library(x, W, out) is out
    assert error(out, expected("same", X, W)) < 1e-5


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-1], lambda b: b[:5000] + bytes([b[5000] ^ 1]) + b[5001:], lambda b: b""],
    ids=["truncated", "flipped", "empty"],
)
def test_damaged_library_never_reaches_the_loader(
    libraries: dict[str, Path], tmp_path: Path, damage: Any
) -> None:
    whole = libraries["full-serial"]
    path = tmp_path / "damaged.so"
    path.write_bytes(damage(whole.read_bytes()))
    with pytest.raises(BrokenArtifact, match="must hash to"):
        load(path, whole.with_suffix(".json"))


def described(libraries: dict[str, Path]) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(libraries["full-serial"].with_suffix(".json").read_text())
    return manifest


def doctored(libraries: dict[str, Path], folder: Path, **changes: Any) -> Path:
    """Copy a library with a changed manifest, signed by this machine's key; return its path."""
    path = folder / "doctored.so"
    path.write_bytes(libraries["full-serial"].read_bytes())
    seal(path, described(libraries) | changes)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"workload_key": '{"operator":"conv9d"}'},
        {"workload_key": "[]"},
        {"workload_key": 7},
        {"library": None},
        {"device": "cpu"},
        {"device": {"kind": "abacus", "limits": {"vector_bytes": 4}}},
        {"device": {"kind": "cpu", "name": "", "limits": {"vector_bytes": True}}},
        {"library": {"sha256": "0" * 63, "size": 1}},
        {"manifest_version": 1},
        {"manifest_version": None},
    ],
)
def test_damaged_manifest_is_refused_as_such(
    libraries: dict[str, Path], tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(BrokenArtifact, match="the manifest of"):
        load(doctored(libraries, tmp_path, **changes))


def test_missing_manifest_or_signature_is_named(libraries: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BrokenArtifact, match=r"no manifest at .*alone\.json"):
        load(tmp_path / "alone.so")
    (tmp_path / "alone.json").write_text("{}")
    with pytest.raises(UntrustedSigner, match=r"no signature at .*alone\.sig"):
        load(tmp_path / "alone.so")


@pytest.mark.parametrize("content", [b"no library at all", None])
def test_file_that_is_no_kernel_is_refused(
    libraries: dict[str, Path], tmp_path: Path, content: bytes | None
) -> None:
    # The other file is a real shared library, which loads but has no function main.
    content = content or Path(np.random.bit_generator.__file__).read_bytes()
    path = tmp_path / "other.so"
    path.write_bytes(content)
    named = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    seal(path, described(libraries) | {"library": named})
    with pytest.raises(BrokenArtifact, match="can't be loaded"):
        load(path)


def test_library_with_instructions_that_this_cpu_lacks_is_refused(
    libraries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = described(libraries)["device"]
    device["limits"]["vector_bytes"] = 64
    monkeypatch.setattr(cpu_facts, "_flags", lambda: {"sse2", "avx2"})
    with pytest.raises(ForeignDevice, match="avx512f"):
        load(doctored(libraries, tmp_path, device=device))


def test_a_cuda_library_without_a_driver_says_what_is_missing(
    libraries: dict[str, Path], tmp_path: Path
) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        device = described(libraries)["device"] | {"kind": "cuda"}
        with pytest.raises(MissingRuntime, match=r"libcuda\.so\.1.*NVIDIA driver"):
            load(doctored(libraries, tmp_path, device=device))
    else:
        pytest.skip("this machine has the driver")


@pytest.mark.parametrize("built", BUILT)
@pytest.mark.torch
def test_library_computes_the_right_output_on_pytorch_tensors(
    libraries: dict[str, Path], built: str
) -> None:
    import torch

    name = built.partition("-")[0]
    x, w = arrays(workload(name))
    y = load(libraries[built])(to_tensor(x, "cpu"), to_tensor(w, "cpu"))
    assert isinstance(y, torch.Tensor)
    assert error(to_array(y), expected(name, x, w)) < workload(name).max_error


@pytest.mark.torch
def test_pytorch_tensors_that_do_not_fit_are_refused(libraries: dict[str, Path]) -> None:
    import torch

    library = load(libraries["same-serial"])
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    for wrong, kind, says in (
        (x.double(), WrongDtype, "input must be float32, but is float64"),
        (x[1:], WrongShape, "input must have shape"),
        (x.clone().requires_grad_(), WrongArgument, r"pass input\.detach\(\)"),
        (x.to("meta"), WrongDevice, "must be on cpu, but is on meta; give a tensor with data"),
        (x.repeat(2)[::2], WrongLayout, "input must be contiguous"),
    ):
        with pytest.raises(kind, match=says):
            library(wrong, w)
    trained = x.clone().requires_grad_()
    with torch.no_grad():
        library(trained, w)
    with torch.inference_mode(), torch.enable_grad():  # PyTorch records nothing in inference mode
        library(trained, w)


@pytest.mark.torch
def test_negated_view_of_pytorch_is_refused(libraries: dict[str, Path]) -> None:
    import torch

    x, w = torch.from_numpy(X), torch.from_numpy(W)
    with pytest.raises(WrongLayout, match=r"input is a negated view; pass input\.resolve_neg"):
        load(libraries["same-serial"])(torch._neg_view(x), w)


def test_library_replaced_after_its_check_is_not_loaded(
    libraries: dict[str, Path], tmp_path: Path
) -> None:
    """If somebody replaces the file right after it was read, the bytes that were checked are loaded
    nevertheless."""
    path, (x, w) = tmp_path / "library.so", arrays(workload("same"))
    name = "same-serial"
    for suffix in (".so", ".json", ".sig"):
        content = libraries[name].with_suffix(suffix).read_bytes()
        path.with_suffix(suffix).write_bytes(content)
    code = """
import sys
from pathlib import Path
import numpy as np
from tuner.library.load import load
from tuner.peers.torch_arrays import to_array, to_tensor
path, x, w = Path(sys.argv[1]), np.load(sys.argv[2]), np.load(sys.argv[3])
read = Path.read_bytes
def overtaken(self):
    content = read(self)
    if self == path:
        path.write_bytes(b"something else")
    return content
Path.read_bytes = overtaken
print(float(np.abs(load(path)(x, w)).sum()))
"""
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    said = run(code, path, tmp_path / "x.npy", tmp_path / "w.npy")
    assert float(said) == pytest.approx(float(np.abs(load(libraries[name])(x, w)).sum()))
    with pytest.raises(BrokenArtifact, match="must hash to"):
        load(path)


def test_replaced_library_at_the_same_path_is_loaded_anew(
    libraries: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "library.so"
    for name in ("full", "same"):
        for suffix in (".so", ".json", ".sig"):
            content = libraries[f"{name}-serial"].with_suffix(suffix).read_bytes()
            replaced = tmp_path / "new"
            replaced.write_bytes(content)
            replaced.replace(path.with_suffix(suffix))
        x, w = arrays(workload(name))
        assert error(load(path)(x, w), expected(name, x, w)) < workload(name).max_error

"""Which bests go into a package, and which files and folders it consists of."""

import ast
import base64
import hashlib
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import built_for, database, packed, variants, written
from small_libraries import BIASED, GRADIENTS, WORKLOADS, workload
from sqlalchemy import Engine
from stored_best import NUMPY, store

import templates
from tests.templates.devices import H200
from tuner.client.local import Local
from tuner.device import cuda_facts
from tuner.device.device import Device
from tuner.errors import BadOrder, NotTuned, UntrustedSigner, UnusableFile
from tuner.library.load import load
from tuner.library.trust import by_name
from tuner.package import folder as folders
from tuner.package.calls import call_of
from tuner.package.contents import chosen, contents
from tuner.package.variant import SHIPPED

GPU = Device("cuda", "NVIDIA H200", "sm_90", 1, "580", H200, cuda_facts.target(H200))


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[tuple[Local, Engine]]:
    with database(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("name", [*WORKLOADS, *BIASED])
def test_workload_becomes_a_call_of_the_package(name: str) -> None:
    work = workload(name)
    call = call_of(work)
    assert call is not None
    given = {each.role: each for each in work.inputs}
    for role in ("input", "weight"):
        assert np.prod(call[role]) == given[role].elements


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_has_no_call_in_a_package(name: str) -> None:
    assert call_of(workload(name)) is None


@pytest.mark.parametrize(
    ("fields", "padding"),
    [
        ({"M": 9, "N": 4, "mode": "same"}, [2, 1]),
        ({"M": 9, "N": 1, "mode": "valid"}, [0, 0]),
        ({"M": 9, "N": 4, "mode": "causal"}, [3, 0]),
        ({"M": 9, "N": 4, "padding": [7, 2], "C": 2}, [7, 2]),
    ],
)
def test_every_mode_becomes_explicit_padding(fields: dict[str, Any], padding: list[int]) -> None:
    call = call_of(templates.operator("conv1d").workload.model_validate(fields))
    assert call is not None
    assert call["padding"] == padding


def test_workload_without_a_call_is_left_out_of_the_package(
    empty: tuple[Local, Engine], libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, engine = empty
    store(engine, libraries["full-parallel"])
    monkeypatch.setattr("tuner.package.calls._FORMS", {})
    found = packed(source)
    assert found.kernels == []
    assert found.left_out[0].endswith("the package has no function that would call it")


def test_kernel_that_is_slower_than_pytorch_is_left_out(
    empty: tuple[Local, Engine], libraries: dict[str, Path]
) -> None:
    source, engine = empty
    faster = {"name": "pytorch", "time_us": 10.0, "speedup": 0.5}
    store(engine, libraries["full-parallel"], [NUMPY, faster])
    store(engine, libraries["depthwise-serial"])
    found = packed(source)
    assert [kernel.row["file"].partition("-")[0] for kernel in found.kernels] == [
        "depthwise_conv2d"
    ]
    (said,) = found.left_out
    assert said.startswith("conv1d --M 16384 --N 32 on ")
    assert said.endswith("pytorch was the fastest when this shape was tuned: 10 µs")


def test_listed_workloads_must_be_tuned(source: Local) -> None:
    wanted = [workload("full"), *(workload("full").model_copy(update={"N": n}) for n in (33, 34))]
    with pytest.raises(NotTuned, match=r"2 of 3 workloads .* --N 33; conv1d .* --N 34; tune them"):
        chosen(source, wanted)
    with pytest.raises(NotTuned, match="1 of 1 workloads are not tuned on cuda"):
        chosen(source, wanted[:1], target="cuda")
    assert chosen(source, wanted, operator="depthwise_conv2d") == []
    (best,) = chosen(source, wanted[:1])
    assert best.workload["M"] == 16384


def test_changed_library_is_fetched_anew_and_untrusted_one_is_not_packed(
    empty: tuple[Local, Engine], libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, engine = empty
    store(engine, libraries["full-parallel"])
    bests = chosen(source, None)
    (cached,) = (source.fetch(bests[0].artifacts.library, ".so"),)  # type: ignore[arg-type]
    whole = cached.read_bytes()
    cached.write_bytes(b"another")
    contents(source, bests)
    assert cached.read_bytes() == whole
    monkeypatch.setattr(source, "_trusted", lambda _: by_name(frozenset()))
    with pytest.raises(UntrustedSigner):
        contents(source, bests)


def test_package_folder_has_digests_licences_and_a_project_file(
    source: Local, tmp_path: Path
) -> None:
    variant = written(source, tmp_path / "Kernels of mine")
    assert [path.name for path in variants(tmp_path / "Kernels of mine")] == [variant.name]
    assert variant.name.startswith("tvm-ffi01-cpu-")
    described = json.loads((variant / "metadata.json").read_text())
    assert described["name"] == "kernels-of-mine"
    assert described["id"].isidentifier()
    files = {
        str(path.relative_to(variant)): path.read_bytes()
        for path in variant.rglob("*")
        if path.is_file() and path.name != "metadata.json"
    }
    digests = {
        name: base64.b64encode(hashlib.sha256(content).digest()).decode()
        for name, content in files.items()
    }
    assert described["digest"] == {"algorithm": "sha256", "files": digests}
    assert {"tvm_runtime/LICENSE", "tvm_runtime/NOTICE", "kernels.json"} < files.keys()
    assert b"Apache License" in files["tvm_runtime/LICENSE"]
    project = tomllib.loads((tmp_path / "Kernels of mine/pyproject.toml").read_text())
    assert project["project"]["name"] == "kernels-of-mine"
    assert project["tool"]["setuptools"]["package-dir"] == {
        "kernels_of_mine": f"build/{variant.name}"
    }
    assert [path.name for path in tmp_path.iterdir()] == ["Kernels of mine"]


def test_packed_kernels_load_as_signed_libraries(source: Local, tmp_path: Path) -> None:
    variant = written(source, tmp_path / "kernels")
    libraries = sorted((variant / "kernels").glob("*.so"))
    assert len(libraries) == len(WORKLOADS) + len(BIASED)
    assert {load(path).workload.key for path in libraries} == {
        workload(name).key for name in (*WORKLOADS, *BIASED)
    }


def test_gpu_variant_has_the_cpu_kernels_too(
    empty: tuple[Local, Engine], libraries: dict[str, Path], tmp_path: Path
) -> None:
    source, engine = empty
    store(engine, libraries["full-parallel"])
    store(engine, built_for(GPU, tmp_path))
    last = written(source, tmp_path / "both")
    cpu, gpu = variants(tmp_path / "both")
    assert last == gpu
    assert gpu.name.startswith("tvm-ffi01-cu130-")
    assert (gpu / "tvm_runtime/libtvm_runtime_cuda.so").exists()
    assert not (cpu / "tvm_runtime/libtvm_runtime_cuda.so").exists()
    described = json.loads((gpu / "metadata.json").read_text())
    assert described["backend"] == {"type": "cuda", "archs": ["9.0"]}
    rows = {each: json.loads((each / "kernels.json").read_text()) for each in (cpu, gpu)}
    assert [row["kind"] for row in rows[cpu]] == ["cpu"]
    assert sorted(row["kind"] for row in rows[gpu]) == ["cpu", "cuda"]
    (row,) = (row for row in rows[gpu] if row["kind"] == "cuda")
    assert (row["device"], row["arch"], row["instructions"]) == ("NVIDIA H200", "sm_90", None)
    text = (tmp_path / "both/pyproject.toml").read_text()
    assert tomllib.loads(text)["tool"]["setuptools"]["package-dir"] == {"both": f"build/{gpu.name}"}


def test_existing_path_is_refused_unless_it_is_an_empty_folder(
    source: Local, tmp_path: Path
) -> None:
    found = packed(source)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/note").write_text("mine")
    for name in ("kept", "kept/note"):
        with pytest.raises(UnusableFile, match="is there already"):
            folders.write(tmp_path / name, "kernels", found)
    assert (tmp_path / "kept/note").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    folders.write(tmp_path / "empty", "kernels", found)
    assert (tmp_path / "empty/pyproject.toml").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "kept"]


def test_failed_write_leaves_no_package_folder(
    source: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = packed(source)
    monkeypatch.setattr("tuner.package.folder._pyproject", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        folders.write(tmp_path / "package", "kernels", found)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["1st", "x", "-", "Ünï", "a_b", "a" * 65, "class", "json", "torch", "tvm-ffi", "convtune"],
)
def test_invalid_package_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadOrder, match="--name"):
        folders.name_of(tmp_path, name)


def test_shipped_modules_import_only_torch_tvm_ffi_and_the_standard_library() -> None:
    for path in SHIPPED.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            known = sys.stdlib_module_names | {"torch", "tvm_ffi"}
            assert {name.partition(".")[0] for name in names} <= known, path.name

"""A workspace: the program asks for it, and the caller of the library allocates it."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_libraries import arrays, error, seal

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.library import workspace_programs
from tuner.build.compile import BuildOrder, Built, build
from tuner.device import cpu_facts
from tuner.errors import WrongArgument
from tuner.job import artifact
from tuner.library import tensors
from tuner.library.load import Library, load
from tuner.measure.trial import RunOrder, measure, write_cases

WORK = Conv1dWorkload(M=1000, N=9, mode="valid", kind="correlate")


def built(program: str, path: Path) -> Built:
    device = cpu_facts.device()
    named = f"{workspace_programs.__name__}:{program}"
    return build(BuildOrder(WORK.key, named, None, device.target, path))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("workspace") / "sums.so"
    made, device = built("sums", path), cpu_facts.device()
    assert (made.status, made.workspace) == ("ok", WORK.length)
    described = artifact.manifest(
        WORK,
        device,
        config={"template": "naive"},
        template_version=1,
        threads=1,
        versions={},
        timing={},
        max_error=1e-7,
        named=artifact.files("cpu", path.read_bytes(), made.source, {}),
        workspace=made.workspace,
    )
    seal(path, described)
    return load(path)


def test_library_with_a_workspace_is_right_on_numpy_arrays(library: Library) -> None:
    x, w = arrays(WORK)
    exact = np.correlate(x.astype("f8"), w, "valid")
    x.flags.writeable = False
    assert error(library(x, w), exact) < 1e-5
    assert error(library(weight=w, input=x[:], out=np.empty(WORK.length, "f4")), exact) < 1e-5


@pytest.mark.torch
def test_workspace_of_a_call_on_pytorch_tensors_is_a_pytorch_tensor(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    x, w = arrays(WORK)
    made: list[Any] = []
    empty = torch.empty

    def counted(*size: Any, **options: Any) -> Any:
        made.append(empty(*size, **options))
        return made[-1]

    monkeypatch.setattr(torch, "empty", counted)
    y = library(torch.from_numpy(x), torch.from_numpy(w), out=empty(WORK.length))
    assert error(y.numpy(), np.correlate(x.astype("f8"), w, "valid")) < 1e-5
    assert [(each.shape, each.dtype) for each in made] == [((WORK.length,), torch.float32)]


def test_concurrent_calls_do_not_share_a_workspace(library: Library) -> None:
    given = [arrays(WORK, seed) for seed in range(64)]
    with ThreadPoolExecutor(4) as threads:
        outputs = list(threads.map(lambda each: library(*each), given))
    for (x, w), y in zip(given, outputs, strict=True):
        assert error(y, np.correlate(x.astype("f8"), w, "valid")) < 1e-5


def test_manifest_lists_the_workspace_as_the_last_argument(library: Library) -> None:
    arguments = library.manifest["signature"]["arguments"]
    assert [argument["role"] for argument in arguments] == [
        "input", "weight", "output", "workspace",
    ]  # fmt: skip
    assert arguments[-1]["shape"] == [WORK.length]
    assert arguments[-1]["dtype"] == "float32"


def test_trial_of_a_library_with_a_workspace_is_measured(library: Library, tmp_path: Path) -> None:
    write_cases(WORK.key, tmp_path, 0)
    measured = measure(RunOrder(WORK.key, library.path, tmp_path, "cpu", 2**20))
    assert measured.status == "ok", measured.error


def test_workspace_on_a_gpu_needs_pytorch_tensors() -> None:
    with pytest.raises(WrongArgument, match=r"needs a workspace.*call it on PyTorch tensors"):
        tensors.new_workspace(object(), WORK.length, "cuda")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("two_dimensions", "a workspace has one dimension and is float32"),
        ("another_weight", r"the program takes .*\(10,\).*its workload's arguments are .*\(9,\)"),
    ],
)
def test_program_with_other_parameters_is_a_build_error(
    program: str, says: str, tmp_path: Path
) -> None:
    made = built(program, tmp_path / "none.so")
    assert made.status == "build_error"
    assert re.search(says, made.error or "")

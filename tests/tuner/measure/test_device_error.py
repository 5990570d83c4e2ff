"""The kernel that computes an output's error on a GPU: it compiles to machine code, and it is used
if memory allows. Other tests check its results on a GPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.workload import Workload
from tuner.build.cuda_compile import cubin
from tuner.measure import cases
from tuner.measure.check import relative_error
from tuner.measure.device_error import source
from tuner.measure.kernel import Tensors

WORKLOAD = Conv1dWorkload(M=100, N=7)
HALF = Conv1dWorkload(M=100, N=7, dtype="float16")
BOTH = pytest.mark.parametrize("workload", [WORKLOAD, HALF], ids=lambda workload: workload.dtype)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_error_kernel_compiles_to_machine_code(dtype: str, arch: str) -> None:
    reference = cases.reference_dtype(Conv1dWorkload(M=100, N=7, dtype=dtype))
    assert b"compare" in cubin(source(dtype, reference), arch)


class Device:
    """A stand-in for the GPU's kernel: it returns the largest absolute difference and lists the
    references in ``asked``."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, y: Any, reference: Any) -> float:
        self.asked.append(reference)
        return float(np.abs(y.numpy().astype(np.float64) - reference.numpy()).max())


def written(workload: Workload, folder: Path) -> tuple[Tensors, list[cases.Case], Device]:
    cases.write(workload, folder, seed=3)
    tensors, device = Tensors(workload, "cpu"), Device()
    tensors._largest = device  # type: ignore[assignment]
    return tensors, cases.read(workload, folder), device


def answer(tensors: Tensors, case: cases.Case, off: float) -> None:
    tensors.outputs[0].copyfrom((case.references["output"] + off).astype(case.inputs[0].dtype))


@BOTH
def test_device_compares_with_references_that_stay_on_it(
    workload: Workload, tmp_path: Path
) -> None:
    tensors, known, device = written(workload, tmp_path)
    for case in [*known, *known]:
        tensors.fill(case)
        assert np.isnan(tensors.errors(case)["output"])
        answer(tensors, case, off=1.0)
        assert tensors.errors(case)["output"] == relative_error(
            tensors.outputs[0].numpy(), case.references["output"]
        )
        answer(tensors, case, off=0.0)
        assert 0 <= tensors.errors(case)["output"] < 1e-3
    assert len(device.asked) == 6 * len(cases.CASES)
    assert len({id(reference) for reference in device.asked}) == len(cases.CASES)


@BOTH
def test_host_compares_if_device_memory_is_short(workload: Workload, tmp_path: Path) -> None:
    """The device has room for the inputs and weights of two cases and for one reference; the errors
    of the other cases are computed on the host."""
    tensors, known, device = written(workload, tmp_path)
    given = sum(array.nbytes for array in known[0].inputs)
    tensors._room = 2 * given + known[0].references["output"].nbytes
    for case in known:
        tensors.fill(case)
        for tensor, array in zip(tensors.inputs, case.inputs, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)
        assert np.isnan(tensors.outputs[0].numpy()).all()
        answer(tensors, case, off=1.0)
        assert tensors.errors(case)["output"] == relative_error(
            tensors.outputs[0].numpy(), case.references["output"]
        )
    assert len(device.asked) == 1
    assert tensors._room < known[0].inputs[0].nbytes
    inputs = {(name, part) for name in ("normal", "positive") for part in ("input", "weight")}
    assert set(tensors._kept) == inputs | {("normal", "output")}


def test_cpu_compares_without_a_kernel_or_copies_of_references(tmp_path: Path) -> None:
    cases.write(WORKLOAD, tmp_path, seed=3)
    tensors = Tensors(WORKLOAD, "cpu")
    for case in cases.read(WORKLOAD, tmp_path):
        tensors.fill(case)
        answer(tensors, case, off=1.0)
        assert tensors.errors(case)["output"] == pytest.approx(1 / case.scales["output"], rel=1e-3)
    assert {part for _, part in tensors._kept} == {"input", "weight"}

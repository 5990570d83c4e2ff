"""Test cases of large workloads: the first has all signals; the others repeat a few signals, or a
few channels if there is one signal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tuner.measure import cases
from tuner.measure.cases import Case
from tuner.measure.check import CHUNK, WrongAnswer, check, relative_error
from tuner.measure.kernel import Tensors

LAYER = {"B": 12, "C": 19, "H": 13, "W": 11, "K": 3, "layout": "NHWC"}
SIGNALS = {"B": 13, "C": 35, "M": 51, "N": 4, "mode": "causal", "kind": "correlate"}
LEAST = 50_000
"""The size in bytes from which these tests count a workload as large."""
BATCHES: list[Workload] = [
    DepthwiseConv2dWorkload.model_validate(LAYER | fields)
    for fields in (
        {"bias": True, "residual": True, "activation": "silu", "multiplier": 2},
        {"direction": "backward_input", "layout": "NCHW", "stride": 2},
        {"direction": "backward_weight", "bias": True, "activation": "gelu"},
    )
] + [
    Conv1dWorkload.model_validate(SIGNALS | fields)
    for fields in (
        {"layout": "NWC", "bias": True},
        {"direction": "backward_weight", "groups": 1, "F": 8},
        {"direction": "backward", "bias": True, "activation": "silu"},
    )
]
CHANNELS: list[Workload] = [
    DepthwiseConv2dWorkload.model_validate(LAYER | {"B": 1, "C": 95, "layout": "NCHW"} | fields)
    for fields in (
        {"bias": True, "residual": True, "activation": "silu", "multiplier": 2},
        {"direction": "backward_weight", "activation": "gelu"},
    )
] + [
    Conv1dWorkload.model_validate(SIGNALS | {"B": 1, "C": 301} | fields)
    for fields in (
        {"F": 602, "bias": True, "stride": 2},
        {"direction": "backward", "bias": True, "activation": "silu"},
    )
]
"""Workloads of one signal with many channels."""


def told(workload: Workload) -> str:
    return f"{workload.operator} {' '.join(map(str, workload.explicit_fields.values()))}"


@pytest.fixture(scope="module", autouse=True)
def large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "LARGE", LEAST)
        yield


@pytest.fixture(scope="module", params=BATCHES + CHANNELS, ids=told)
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Workload, list[Case], Path]:
    workload: Workload = request.param
    assert workload.bytes > cases.LARGE
    folder = tmp_path_factory.mktemp("cases")
    cases.write(workload, folder, seed=5)
    return workload, cases.read(workload, folder), folder


def whole(workload: Workload, case: Case) -> list[Any]:
    """Return the case's inputs in the workload's full shapes, with few signals repeated."""
    pairs = zip(case.inputs, workload.inputs, strict=True)
    return [np.resize(array, argument.shape) for array, argument in pairs]


def test_repeated_reference_equals_that_of_all_signals(
    written: tuple[Workload, list[Case], Path],
) -> None:
    workload, known, _ = written
    for case in known:
        references = templates.operator(workload.operator).references
        exact = references(workload, *whole(workload, case))
        for output in workload.outputs:
            kept = np.resize(case.references[output.name], output.shape)
            assert relative_error(kept, exact[output.name]) < 1e-13


def test_only_the_first_case_is_stored_with_all_signals(
    written: tuple[Workload, list[Case], Path],
) -> None:
    workload, (first, *others), folder = written
    shapes = [argument.shape for argument in workload.inputs]
    assert [array.shape for array in first.inputs] == shapes
    few = workload.reduced_to(cases.SIGNALS, cases.CHANNELS)
    assert few.bytes < workload.bytes
    for case in others:
        assert [array.shape for array in case.inputs] == [each.shape for each in few.inputs]
    files = list(folder.iterdir())
    assert sum(file.stat().st_size for file in files) == cases.size(workload) + 128 * len(files)


@pytest.mark.parametrize("short", [False, True])
def test_tensors_hold_all_signals_of_each_case(
    written: tuple[Workload, list[Case], Path], short: bool
) -> None:
    workload, known, _ = written
    tensors = Tensors(workload, "cpu")
    if short:
        tensors._room = 0
    for case in known:
        tensors.fill(case)
        for tensor, array in zip(tensors.inputs, whole(workload, case), strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)
        for output, tensor in zip(workload.outputs, tensors.outputs, strict=True):
            right = np.resize(case.references[output.name], output.shape)
            tensor.copyfrom(right.astype(np.float32))
        assert max(tensors.errors(case).values()) < 1e-7


@pytest.mark.parametrize("signals", [1, cases.SIGNALS])
def test_kernel_that_takes_one_signal_for_another_is_wrong(signals: int, tmp_path: Path) -> None:
    """A kernel that takes one signal for another fails in the first case, even if the two signals
    are equal in the other cases, whose signals repeat."""
    workload = DepthwiseConv2dWorkload.model_validate(LAYER)
    cases.write(workload, tmp_path, seed=5)

    def errors(case: Case) -> Mapping[str, float]:
        y = np.resize(case.references["output"], workload.output.shape)
        y[signals:] = y[:-signals].copy()
        return {"output": relative_error(y, case.references["output"])}

    known = cases.read(workload, tmp_path)
    with pytest.raises(WrongAnswer, match="on normal input"):
        check(errors, known, workload.max_error)
    wrong = [case.name for case in known[1:] if errors(case)["output"] > workload.max_error]
    assert wrong == (["positive", "decaying", "offset"] if signals == 1 else [])


@pytest.mark.parametrize("known", [7, CHUNK + 1])
@pytest.mark.parametrize("place", [0, 6, 7, -1])
def test_error_is_found_in_each_repetition_of_a_reference(known: int, place: int) -> None:
    exact = np.linspace(1, 2, known)
    y = np.resize(exact, 3 * known + 4)
    assert relative_error(y, exact) == 0
    y[place] += 0.5
    assert relative_error(y, exact) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "fields", [{"layout": "NWC"}, {"direction": "backward_weight", "bias": True}, {"groups": 1}]
)
def test_all_channels_are_drawn_if_memory_does_not_repeat_them(fields: dict[str, Any]) -> None:
    work = Conv1dWorkload.model_validate(SIGNALS | {"B": 1, "C": 301, "bias": True} | fields)
    assert work.reduced_to(cases.SIGNALS, cases.CHANNELS) == work


def test_case_of_a_weight_gradient_has_all_signals() -> None:
    """A gradient of the weight has few outputs, and sums of repeated signals could cancel."""
    gradient = {"B": 64, "M": 500, "N": 5, "mode": "same", "direction": "backward_weight"}
    workload = Conv1dWorkload.model_validate(gradient | {"kind": "correlate"})
    assert workload.bytes > cases.LARGE
    given = cases.draw(workload, "positive", np.random.default_rng(0))
    assert [array.shape for array in given] == [argument.shape for argument in workload.inputs]

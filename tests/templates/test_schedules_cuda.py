"""CUDA templates: random configurations of random workloads give sources that fit the device, and
cubins for the oldest and the newest device. tests/gpu checks what they compute."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tests.templates.cuda_source import (
    cubin,
    declared,
    registers_and_stack,
    source,
    waits_first,
)
from tests.templates.devices import H200, T4
from tests.templates.shapes import SMALL, small_gradients
from tests.templates.test_schedules_cpu import LARGEST

BOUNDED = settings(max_examples=12, derandomize=True, deadline=None, database=None)


def threads(template: Any, workload: Workload, config: dict[str, Any], limits: Any) -> int:
    """Return the threads of a block of the main kernel, from the template's features."""
    features = template.features(workload, config, limits)
    return int(features["threads"] if "threads" in features else config["threads"])


def fitting(template: Any, workload: Workload, config: dict[str, Any], limits: Any) -> str:
    """Return the source, after checks of its shared memory and threads against the device's limits
    and the template's features."""
    text = source(template, workload, config, limits)
    found = declared(text)
    features = template.features(workload, config, limits)
    assert threads(template, workload, config, limits) in found.threads
    if found.shared_bytes is None:  # the source itself asserts that the estimate is its size
        assert features["shared_bytes"] <= limits.shared_memory_opt_in
    else:
        assert found.shared_bytes == features["shared_bytes"] <= limits.shared_memory_per_block
    return text


@pytest.mark.parametrize("operator", SMALL)
@BOUNDED
@given(data=st.data())
def test_any_configuration_of_a_small_workload_fits(operator: str, data: st.DataObject) -> None:
    workload = data.draw(SMALL[operator]())
    for template in templates.templates_for(workload, T4):
        space = template.space(workload, T4)
        fitting(template, workload, space[data.draw(st.integers(0, len(space) - 1))], T4)


@pytest.mark.parametrize("operator", SMALL)
@BOUNDED
@given(data=st.data())
def test_any_configuration_of_a_small_gradient_fits(operator: str, data: st.DataObject) -> None:
    workload = data.draw(small_gradients(operator))
    for template in templates.templates_for(workload, T4):
        space = template.space(workload, T4)
        assert template.default(workload, T4) in space
        fitting(template, workload, space[data.draw(st.integers(0, len(space) - 1))], T4)


WORKLOADS = [
    Conv1dWorkload(M=16384, N=32),
    Conv1dWorkload(M=20011, N=4099, mode="valid", kind="correlate"),
    DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7),
    DepthwiseConv2dWorkload(B=1, C=6, H=7, W=29, K=15, stride=2),
    Conv1dWorkload(M=20011, N=4099, mode="same", dtype="float16"),
    DepthwiseConv2dWorkload(B=1, C=6, H=31, W=29, K=9, dtype="float16"),
    DepthwiseConv2dWorkload(B=2, C=24, H=31, W=29, K=5, layout="NHWC", bias=True),
    DepthwiseConv2dWorkload(B=2, C=24, H=31, W=29, K=7, layout="NHWC", dtype="float16"),
    DepthwiseConv2dWorkload(
        B=2, C=40, H=31, W=29, K=13, layout="NHWC", residual=True, activation="silu"
    ),
    DepthwiseConv2dWorkload(
        B=2, C=40, H=31, W=29, K=9, stride=2, layout="NHWC", dtype="bfloat16", residual=True
    ),
    Conv1dWorkload(M=20011, N=61, dtype="bfloat16"),
    Conv1dWorkload(B=2, C=24, M=509, N=4, mode="causal", dtype="bfloat16", activation="silu"),
    Conv1dWorkload(B=2, C=24, M=510, N=5, mode="same", layout="NWC", dtype="float16"),
    Conv1dWorkload(B=2, C=40, M=512, N=7, F=50, groups=1, dilation=9, mode="same", dtype="float16"),
    Conv1dWorkload(M=5003, N=400, F=65, stride=16, mode="valid", dtype="float16", residual=True),
    Conv1dWorkload(B=3, C=2, M=5003, N=100, F=6),
    Conv1dWorkload(B=16, C=12, M=202, N=31, mode="same", kind="correlate", dtype="float16"),
    Conv1dWorkload(B=5, C=3, M=501, N=96, F=6, dtype="bfloat16", bias=True, residual=True),
    Conv1dWorkload(M=20011, N=1031, mode="same", bias=True, residual=True, activation="silu"),
    DepthwiseConv2dWorkload(B=2, C=24, H=31, W=29, K=9, dtype="bfloat16"),
    DepthwiseConv2dWorkload(
        B=3, C=5, H=29, W=31, K=13, bias=True, residual=True, activation="silu"
    ),
    DepthwiseConv2dWorkload(
        B=2, C=6, H=30, W=36, K=9, stride=2, dtype="bfloat16", residual=True, activation="gelu"
    ),
    *(
        Conv1dWorkload(
            B=2, C=24, M=512, N=4, mode="causal", dtype="bfloat16", direction=direction, **fields
        )
        for direction in ("backward_input", "backward_weight")
        for fields in (
            {"activation": "silu", "bias": True},
            {"F": 48, "stride": 2},
            {"F": 40, "stride": 2, "groups": 1},
        )
    ),
    *(
        DepthwiseConv2dWorkload(
            B=5, C=40, H=31, W=29, direction="backward_weight", **{"layout": "NHWC"} | fields
        )
        for fields in (
            {"K": 7, "layout": "NCHW", "bias": True},
            {"K": 7, "bias": True, "activation": "silu"},
            {"K": 3, "stride": 2, "dtype": "float16", "bias": True},
            {"K": 7, "dtype": "bfloat16"},
            {"K": 13, "dtype": "bfloat16", "activation": "gelu"},
            {"KH": 3, "KW": 5, "stride": 3, "dilation": 4, "padding": (0, 9, 9, 2)},
        )
    ),
    DepthwiseConv2dWorkload(
        B=5, C=40, H=31, W=32, K=5, stride=2, multiplier=2, direction="backward_input"
    ),
]


def kinds(template: Any, workload: Workload, limits: Any) -> set[tuple[object, ...]]:
    """Return the kinds of programs to which a template's program for a workload and device belongs:
    one each by device, by dtype and direction, by epilogue, by layout and by stride."""
    fields = workload.model_dump()
    ends = fields["bias"] or fields["residual"] or fields["activation"] != "none"
    found = [
        ("for", limits.arch),
        ("of", workload.dtype, workload.direction),
        ("with", ends),
        ("in", fields["layout"]),
        ("at", fields["stride"] > 1),
    ]
    return {(workload.operator, template.name, *kind) for kind in found}


def programs() -> dict[str, list[tuple[Any, Any, bool]]]:
    """Return, by the workload's key, its templates on each device, and whether to compile that
    program to a cubin.

    Compiling is slow, so programs are chosen greedily until every kind (see :func:`kinds`) has one.
    """
    found = [
        (workload.key, template, limits, kinds(template, workload, limits))
        for workload in WORKLOADS
        for limits in (T4, H200)
        for template in templates.templates_for(workload, limits)
    ]
    left = set().union(*(kinds for *_, kinds in found))
    compiled: set[int] = set()
    while left:
        most = max(range(len(found)), key=lambda place: len(found[place][-1] & left))
        compiled.add(most)
        left -= found[most][-1]
    chosen: dict[str, list[tuple[Any, Any, bool]]] = {}
    for place, (key, template, limits, _) in enumerate(found):
        chosen.setdefault(key, []).append((template, limits, place in compiled))
    return chosen


PROGRAMS = programs()


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_a_random_configuration_compiles_to_a_cubin_that_fits(workload: Workload) -> None:
    for template, limits, is_compiled in PROGRAMS[workload.key]:
        space = template.space(workload, limits)
        config = space[int(np.random.default_rng(3).integers(len(space)))]
        text = fitting(template, workload, config, limits)
        if is_compiled:
            registers, _ = registers_and_stack(cubin(text, limits.arch))
            assert registers * threads(template, workload, config, limits) <= 2**16


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_the_default_keeps_its_sums_in_registers_and_waits_first(workload: Workload) -> None:
    """No load or store may precede the wait of a launch that begins early."""
    for template in templates.templates_for(workload, H200):
        text = source(template, workload, template.default(workload, H200), H200)
        binary = cubin(text, H200.arch)
        registers, stack = registers_and_stack(binary)
        assert (registers <= 255, stack) == (True, 0)
        assert waits_first(binary) == ("wait_for_launch" in text), template.name


@pytest.mark.parametrize("workload", LARGEST, ids=lambda workload: workload.key)
def test_the_largest_workloads_fit(workload: Workload) -> None:
    for template in templates.templates_for(workload, T4):
        fitting(template, workload, template.default(workload, T4), T4)


def test_knob_value_enough_takes_more_registers_than_few() -> None:
    """With enough registers, all 49 weights and the inputs are loaded at once: on an H200 the
    kernel takes 1.45 µs instead of 1.62 µs."""
    workload = DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7)
    (rows,) = (each for each in templates.templates_for(workload, H200) if each.name == "rows")
    strip = {"rows": 1, "columns": 1, "threads": 64, "next_launch": "late"}
    few = rows.default(workload, H200) | strip
    taken = {}
    for registers in ("few", "enough"):
        config = few | {"registers": registers}
        assert config in rows.space(workload, H200)
        taken[registers], stack = registers_and_stack(
            cubin(fitting(rows, workload, config, H200), "sm_90")
        )
        assert stack == 0
    assert 2 * taken["few"] < taken["enough"]


def test_layer_with_many_outputs_has_no_knob_registers() -> None:
    workload = DepthwiseConv2dWorkload(B=32, C=96, H=112, W=112, K=3)
    (rows,) = (each for each in templates.templates_for(workload, H200) if each.name == "rows")
    assert "registers" not in {knob.name for knob in rows.space(workload, H200).knobs}

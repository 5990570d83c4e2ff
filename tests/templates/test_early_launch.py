"""Launches that begin early: only if they wait, and only on devices that can."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from templates import operators, templates_for
from templates.conv1d.cuda.direct import CudaDirect
from templates.conv1d.cuda.partitions import CudaPartitions
from templates.conv1d.cuda.toeplitz import CudaToeplitz
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.launches.early_launch import LAUNCHES_WAIT, begin_early
from templates.limits import DeviceLimits
from templates.template import Template
from templates.workload import Workload
from tests.templates.cuda_source import begins_next_after_loads, cubin, source, waits_first
from tests.templates.devices import H200, T4
from tests.templates.test_schedules_cuda import WORKLOADS
from tuner.build import cuda_compile
from tuner.build.compile import EMPTY, EMPTY_WORKLOAD, BuildOrder, build, program_of
from tuner.build.machine_code import uses_memory_before_wait
from tuner.device import cuda_facts
from tuner.process.child import Child


def changed(work: Conv1dWorkload, **fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(work.model_dump() | fields)


SHORT, LONG = Conv1dWorkload(M=5000, N=64), Conv1dWorkload(M=50_000, N=9000)
CAUSAL = Conv1dWorkload(B=2, C=24, M=512, N=4, mode="causal", dtype="bfloat16")
BACKWARD = {"direction": "backward", "activation": "silu", "bias": True}
CHANNELS_LAST: list[dict[str, Any]] = [
    {"gated": True},
    BACKWARD,
    {"direction": "backward_weight"},
    {"direction": "backward_input", "F": 48, "stride": 2},
]
FURTHER: list[Workload] = [
    changed(CAUSAL, **BACKWARD),
    *(changed(CAUSAL, layout="NWC", **fields) for fields in CHANNELS_LAST),
    Conv1dWorkload(F=512, M=16000, N=10, stride=5, mode="valid", dtype="float16"),
    Conv1dWorkload(B=64, C=8, M=1024, N=1024, mode="causal", dtype="float16"),
    *(
        DepthwiseConv2dWorkload(B=4, C=96, H=28, W=28, layout="NHWC", **fields)
        for fields in (
            {"K": 5, "dtype": "float16"},
            {"K": 29, "dtype": "float16"},
            {"K": 5, "stride": 2, "direction": "backward_input"},
        )
    ),
]
"""Workloads for the templates written in CUDA that serve none of test_schedules_cuda."""
SCHEDULED = {("depthwise_conv2d", "direct")}
"""Templates that serve no workload here. TVM schedules them, so they do not wait."""
LAYER = {"B": 32, "C": 96, "H": 28, "W": 28, "K": 5, "layout": "NHWC", "dtype": "float16"}
LAST, LOW, PLANES = (
    DepthwiseConv2dWorkload.model_validate(LAYER | fields)
    for fields in ({}, {"C": 1152, "H": 7, "W": 7}, {"K": 3, "layout": "NCHW"})
)
TAG = b"tirx.use_programtic_dependent_launch"
"""Text in a library that tells TVM's runtime that a launch may begin early."""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    opened = Child()
    yield opened
    opened.close()


@pytest.mark.parametrize(("limits", "early"), [(H200, True), (T4, False)])
@pytest.mark.parametrize(
    ("template", "work", "launches"), [(CudaToeplitz(), SHORT, 1), (CudaPartitions(), LONG, 2)]
)
def test_each_launch_waits_and_may_begin_early_if_the_device_can(
    template: Template[Any],
    work: Conv1dWorkload,
    launches: int,
    limits: DeviceLimits,
    early: bool,
    child: Child,
    tmp_path: Path,
) -> None:
    program, config = program_of(template), template.default(work, limits)
    target, library = cuda_facts.target(limits), tmp_path / "library.so"
    built = child.call(build, BuildOrder(work.key, program, config, target, library), timeout=60)
    assert built.status == "ok", built.error
    assert built.source.count("  wait_for_launch();\n") == launches
    assert library.read_bytes().count(TAG) == (launches if early else 0)


def test_empty_program_begins_early(child: Child, tmp_path: Path) -> None:
    target, library = cuda_facts.target(H200), tmp_path / "library.so"
    order = BuildOrder(EMPTY_WORKLOAD.key, EMPTY, None, target, library)
    assert child.call(build, order, timeout=60).status == "ok"
    assert library.read_bytes().count(TAG) == 1


def test_a_program_that_does_not_wait_never_begins_early() -> None:
    template = CudaDirect()
    made = template.schedule(SHORT, template.default(SHORT, H200)).mod
    assert LAUNCHES_WAIT not in made["main"].attrs
    begin_early(made, "sm_90")
    assert "tirx.kernel_launch_params" not in made["main"].attrs


@pytest.mark.parametrize(("limits", "values"), [(H200, ["early", "late"]), (T4, ["late"])])
@pytest.mark.parametrize(
    ("name", "is_held", "work"),
    [
        ("channels", False, LAST),
        ("channels_toeplitz", False, LAST),
        ("channels_toeplitz", True, LOW),
        ("rows", False, PLANES),
        ("registers", False, SHORT),
        ("registers", False, changed(CAUSAL, bias=True, residual=True)),
    ],
)
def test_launch_lets_the_next_one_begin_only_after_it_waited_and_loaded(
    name: str, is_held: bool, work: Workload, limits: DeviceLimits, values: list[str]
) -> None:
    """By default these templates let the next launch begin early if the device can do so."""
    template = next(each for each in templates_for(work, limits) if each.name == name)
    knobs = {knob.name: knob.values for knob in template.space(work, limits).knobs}
    assert list(knobs["next_launch"]) == values
    config = template.default(work, limits)
    assert config["next_launch"] == values[0]
    if limits is T4:
        return
    assert (config.get("piece", 0) > 0) is is_held
    for value in values:
        code = cubin(source(template, work, config | {"next_launch": value}, limits), limits.arch)
        assert begins_next_after_loads(code) is (value == "early")
        assert waits_first(code)


def test_no_bias_is_loaded_before_the_wait() -> None:
    """The compiler takes the bias for constant. For this configuration it loads the bias before the
    wait, unless it is told that nothing is constant."""
    work = changed(LONG, N=1031, mode="same", bias=True, residual=True)
    template, knobs = CudaToeplitz(), {"warps": 6, "row_tiles": 3, "taps_per_chunk": 344}
    config = template.default(work, H200) | knobs
    assert config in template.space(work, H200)
    text = source(template, work, config, H200)
    (quick, _) = cuda_compile.compile_with(text, H200.arch, cuda_compile.OPTIONS)
    assert uses_memory_before_wait(quick)
    assert waits_first(cubin(text, H200.arch))


def test_all_templates_written_in_cuda_wait_before_they_use_memory() -> None:
    """test_schedules_cuda checks this, too, for the templates of its workloads."""
    names = {(work.operator, each.name) for work in WORKLOADS for each in templates_for(work, H200)}
    for work in FURTHER:
        for template in templates_for(work, H200):
            if (work.operator, template.name) not in names:
                names.add((work.operator, template.name))
                text = source(template, work, template.default(work, H200), H200)
                assert "wait_for_launch" in text
                assert waits_first(cubin(text, H200.arch)), template.name
    all_names = {
        (each.name, template.name)
        for each in operators()
        for template in each.templates
        if template.kind == "cuda"
    }
    assert all_names - names <= SCHEDULED

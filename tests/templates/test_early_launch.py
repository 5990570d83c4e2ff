"""Launches that begin early: only if they wait, and only on devices that can."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.cuda.direct import CudaDirect
from templates.conv1d.cuda.partitions import CudaPartitions
from templates.conv1d.cuda.registers import CudaRegisters
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.early_launch import LAUNCHES_WAIT, begin_early
from templates.limits import DeviceLimits
from templates.template import Template
from tests.templates.devices import H200, T4
from tuner.build.compile import EMPTY, EMPTY_WORKLOAD, BuildOrder, build, program_of
from tuner.device import cuda_facts
from tuner.process.child import Child

SHORT, LONG = Conv1dWorkload(M=5000, N=64), Conv1dWorkload(M=50_000, N=9000)
TAG = b"tirx.use_programtic_dependent_launch"
"""What a library says to TVM's runtime if its launches may begin early."""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    opened = Child()
    yield opened
    opened.close()


@pytest.mark.parametrize(("limits", "early"), [(H200, True), (T4, False)])
@pytest.mark.parametrize(
    ("template", "work", "launches"), [(CudaRegisters(), SHORT, 1), (CudaPartitions(), LONG, 2)]
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


def test_the_empty_program_begins_early_too(child: Child, tmp_path: Path) -> None:
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

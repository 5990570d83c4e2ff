"""Processes that build open nothing on the GPU: a context in each would take its memory."""

from pathlib import Path

import pytest

from templates import templates_for
from templates.conv1d.workload import Conv1dWorkload
from tests.gpu.devices_after_a_build import devices_after_a_build
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.device.device import Device

pytestmark = pytest.mark.gpu

WORKLOAD = Conv1dWorkload(M=1000, N=7)


def test_process_that_builds_opens_no_file_of_the_gpu(
    device: Device, builder: Builder, tmp_path: Path
) -> None:
    template = templates_for(WORKLOAD, device.limits)[0]
    config = template.default(WORKLOAD, device.limits)
    order = BuildOrder(
        WORKLOAD.key, program_of(template), config, device.target, tmp_path / "library.so"
    )
    assert builder.call(devices_after_a_build, order, timeout=60) == ("ok", [])

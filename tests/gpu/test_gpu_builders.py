"""What processes that build take of the GPU: nothing."""

from contextlib import suppress
from pathlib import Path

import pytest

from templates import templates_for
from templates.conv1d.workload import Conv1dWorkload
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, build, program_of
from tuner.device.device import Device

pytestmark = pytest.mark.gpu

WORKLOAD = Conv1dWorkload(M=1000, N=7)


def devices_after_a_build(order: BuildOrder) -> tuple[str, list[str]]:
    """The build's status, and the GPU's files that its process has open then."""
    status = build(order).status
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(handle.readlink()))
    return status, [name for name in found if name.startswith("/dev/nvidia")]


def test_a_build_makes_no_context(device: Device, builder: Builder, tmp_path: Path) -> None:
    template = templates_for(WORKLOAD, device.limits)[0]
    config = template.default(WORKLOAD, device.limits)
    order = BuildOrder(
        WORKLOAD.key, program_of(template), config, device.target, tmp_path / "library.so"
    )
    assert builder.call(devices_after_a_build, order, timeout=60) == ("ok", [])

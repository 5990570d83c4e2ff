"""A build, and the GPU's device files that its process has open afterwards. Children import this
module."""

from contextlib import suppress
from pathlib import Path

from tuner.build.compile import BuildOrder, build


def devices_after_a_build(order: BuildOrder) -> tuple[str, list[str]]:
    """Build an order; return its status and the ``/dev/nvidia*`` files that this process then has
    open."""
    status = build(order).status
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(handle.readlink()))
    return status, [name for name in found if name.startswith("/dev/nvidia")]

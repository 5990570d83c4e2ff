"""A build, and what its process has open of the GPU then. Children import it by this name."""

from contextlib import suppress
from pathlib import Path

from tuner.build.compile import BuildOrder, build


def devices_after_a_build(order: BuildOrder) -> tuple[str, list[str]]:
    """The build's status, and the GPU's files that its process has open then."""
    status = build(order).status
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(handle.readlink()))
    return status, [name for name in found if name.startswith("/dev/nvidia")]

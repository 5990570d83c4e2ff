"""Launches that begin while the launch before them on their stream ends, and then wait for it.

CUDA calls that programmatic dependent launch. What it takes to begin a launch is hidden then.
"""

from __future__ import annotations

from typing import Any

from tvm.tirx.script.builder import ir

LEAST_ARCH = 90
"""Least compute capability, times ten, of a device that can begin a launch early."""
ATTRIBUTE = "launch_is_awaited"
"""Attribute of a TIR function of which each launch begins with :func:`wait_for_launch`."""

WAIT = """
#ifndef WAIT_FOR_LAUNCH
#define WAIT_FOR_LAUNCH
// Waits until the launches before this one have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif
"""


def wait_for_launch() -> None:
    """Add a statement that waits for the launch before. It must precede all use of memory."""
    ir.evaluate(ir.cuda.func_call("wait_for_launch", source_code=WAIT))


def begin_early(module: Any, arch: str) -> None:
    """Let the launches of the module's ``main`` begin early, if they wait and the device can.

    ``arch`` is the device's, such as ``sm_90``.
    """
    main = module["main"]
    if ATTRIBUTE in main.attrs and int(arch.removeprefix("sm_")) >= LEAST_ARCH:
        module["main"] = main.with_attr(
            "tirx.kernel_launch_params",
            ["tirx.use_programtic_dependent_launch"],  # TVM spells it so
        )

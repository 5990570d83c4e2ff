"""Launches that begin while the launch before them on their stream ends, and then wait for it.

CUDA calls this programmatic dependent launch. At the time at which such a launch may use memory, it
has already begun.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm.tirx.script.builder import ir

from templates.limits import EARLY_LAUNCHES, capability

LAUNCHES_WAIT = "launches_wait"
"""Attribute of a TIR function whose launches all wait (``wait_for_launch.cu``) before they use
memory."""

WAIT = Path(__file__).with_name("wait_for_launch.cu")
WAIT_SOURCE = WAIT.read_text()
"""Precedes all other source of a program that waits: it says what the compiler may assume."""


def wait_for_launch() -> None:
    """Add a statement that waits for the previous launch. It must precede all use of memory."""
    ir.evaluate(ir.cuda.func_call("wait_for_launch", source_code=WAIT_SOURCE))


def begin_early(module: Any, arch: str) -> None:
    """Let the launches of the module's ``main`` begin early, if they wait and the device can do so.

    ``arch`` is the device's, such as ``sm_90``.
    """
    main = module["main"]
    if LAUNCHES_WAIT in main.attrs and capability(arch) >= EARLY_LAUNCHES:
        module["main"] = main.with_attr(
            "tirx.kernel_launch_params",
            ["tirx.use_programtic_dependent_launch"],  # TVM spells it so
        )

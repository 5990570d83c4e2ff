"""Only the tensor intrinsics of one kind of device are imported. A new process shows that."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from tuner.plan.intrinsics import PACKAGE, register_intrinsics
register_intrinsics("llvm")
import tvm.s_tir.tensor_intrin  # as MetaSchedule does, which takes seconds elsewhere
from tvm.s_tir import TensorIntrin
assert TensorIntrin.get("dot_16x4_vnni") is not None
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith(PACKAGE + ".")))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it looks for the intrinsics of x86")
def test_intrinsics_of_other_devices_are_not_imported() -> None:
    """For a CPU of x86 only its intrinsics are imported, and TVM finds them by name."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True
    )
    assert (ended.stdout.split(), ended.stderr) == (["x86"], "")

"""A package runs with nothing installed but PyTorch and tvm-ffi."""

import json
import shutil
from pathlib import Path

import pytest
from packages import alone, written
from small_libraries import BIASED, WORKLOADS

from tuner.client.local import Local

pytestmark = pytest.mark.torch

BEGINNING = """
import logging, runpy, sys, warnings
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import torch
import shipped

x, w = torch.randn(1, 1, 16384), torch.randn(1, 1, 32)
"""
CALLS = """
y = shipped.conv1d(x, w, padding=31, kind="convolve")
reference = torch.nn.functional.conv1d(x, w.flip(-1), padding=31)
torch.testing.assert_close(y, reference, atol=1e-4, rtol=0)
shipped.conv1d(x, w)
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libtvm_runtime" in line}
print(*mapped)
"""
CHECK = """
try:
    runpy.run_module("shipped.check", run_name="__main__")
except SystemExit as end:
    print(end.code)
"""


@pytest.fixture(scope="module")
def variant(source: Local, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(source, tmp_path_factory.mktemp("packages") / "kernels-of-mine")


def test_package_computes_with_its_own_runtime(variant: Path, tmp_path: Path) -> None:
    done = alone(variant, tmp_path / "site", BEGINNING + CALLS + CHECK)
    assert done.returncode == 0, done.stderr
    first, second, runtime, *rows, last, code = done.stdout.splitlines()
    assert "computed by conv1d-" in first
    assert second.endswith("is computed by PyTorch")
    assert runtime == str(variant / "tvm_runtime/libtvm_runtime.so")
    kernels = json.loads((variant / "kernels.json").read_text())
    assert len(rows) == len(kernels) == len(WORKLOADS) + len(BIASED)
    assert all("  right on " in row for row in rows)
    assert (
        last == f"{len(rows)} of {len(rows)} kernels ran, 0 wrong; PyTorch computes all other calls"
    )
    assert code == "0"


@pytest.mark.parametrize("openmp", ["", "torch._C.__file__ = '/nowhere.so'"])
def test_package_works_in_a_forked_child(variant: Path, tmp_path: Path, openmp: str) -> None:
    """A forked child lacks the threads of PyTorch's OpenMP. If PyTorch was built without OpenMP, it
    lacks TVM's."""
    program = f"""
import os, signal
{openmp}
torch.set_num_threads(2)
call = dict(padding=31, kind="convolve")
y = shipped.conv1d(x, w, **call)
child = os.fork()
if not child:
    signal.alarm(20)  # or it would wait for ever
    os._exit(not torch.equal(shipped.conv1d(x, w, **call), y))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = alone(variant, tmp_path / "site", BEGINNING + program)
    assert done.returncode == 0, done.stderr
    computed, ended = done.stdout.splitlines()
    assert "computed by conv1d-" in computed
    assert ended == "0"


def test_changed_library_in_a_package_is_reported_and_never_loaded(
    variant: Path, tmp_path: Path
) -> None:
    changed = shutil.copytree(variant, tmp_path / "changed")
    for library in (changed / "kernels").glob("*.so"):
        library.write_bytes(library.read_bytes()[:-1] + b"!")
    done = alone(changed, tmp_path / "site", BEGINNING + CHECK + CALLS)
    *rows, code, _ = done.stdout.splitlines()
    assert len(rows) == len(WORKLOADS) + len(BIASED)
    assert all(row.endswith(".so: not the file that was packed") for row in rows)
    assert code == "1"
    assert "is not what its manifest names; install the package again" in done.stderr

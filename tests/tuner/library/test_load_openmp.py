"""A library's parallel loops run on the threads of PyTorch's OpenMP if PyTorch is loaded, else on
TVM's."""

from pathlib import Path

import fresh
import pytest

from tests.tuner.beside_pytorch import run

pytestmark = pytest.mark.torch

BEGIN = """
import os, sys
from pathlib import Path
{first}
import numpy as np
from tuner.library.load import load
def threads():
    return len(os.listdir("/proc/self/task"))
library = load(Path(sys.argv[1]))
x, w = np.arange(16384, dtype=np.float32) % 7, np.arange(32, dtype=np.float32) % 5
def right():
    return bool(np.array_equal(library(x, w), np.convolve(x, w)))
"""
"""The beginning of each program. All sums are integers that float32 holds exactly, so ``right`` can
compare with ==."""


def said(libraries: dict[str, Path], code: str, first: str = "import torch") -> str:
    """Run the program after BEGIN beside PyTorch on ``full-parallel``; return what it prints."""
    return run(BEGIN.format(first=first) + code, libraries["full-parallel"])


def test_library_starts_no_threads_beside_pytorchs(libraries: dict[str, Path]) -> None:
    code = """
torch.set_num_threads(3)
torch.ones(1 << 20).add_(1)
before = threads()
print(right(), threads() - before)
"""
    assert said(libraries, code) == "True 0"


def test_library_starts_tvms_threads_without_pytorch(libraries: dict[str, Path]) -> None:
    code = """
before = threads()
print(right(), threads() - before, library.threads - 1)
"""
    alone = BEGIN.format(first="") + code
    _, started, wanted = fresh.run(alone, libraries["full-parallel"]).split()
    assert started == wanted


def test_library_uses_as_many_threads_as_pytorch(libraries: dict[str, Path]) -> None:
    code = """
torch.set_num_threads(1)
before = threads()
print(right(), threads() - before)
torch.set_num_threads(5)
print(right(), threads() - before)
"""
    assert said(libraries, code).split() == ["True", "0", "True", "4"]


def test_several_python_threads_may_call_a_library_beside_pytorch(
    libraries: dict[str, Path],
) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
torch.set_num_threads(2)
with ThreadPoolExecutor(4) as pool:
    print(all(pool.map(lambda _: right(), range(200))))
"""
    assert said(libraries, code) == "True"


def test_library_works_in_a_forked_child_with_one_pytorch_thread(
    libraries: dict[str, Path],
) -> None:
    """A forked child has lost OpenMP's threads, so it must compute on one thread. PyTorch's data
    loaders set one thread in each child; the test's child does the same."""
    code = """
import warnings
warnings.simplefilter("ignore")
torch.set_num_threads(2)
first = right()
child = os.fork()
if not child:
    torch.set_num_threads(1)
    os._exit(0 if right() else 1)
print(first, os.waitpid(child, 0)[1])
"""
    assert said(libraries, code) == "True 0"


FORKED = """
import signal
first = right()
child = os.fork()
if not child:
    signal.alarm(20)  # or it would wait for ever
    os._exit(not (right() and {then}))
print(first, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""The end of programs whose forked child calls the library, and then does something else."""


def test_numpy_program_may_call_a_library_in_a_forked_child_beside_pytorch(
    libraries: dict[str, Path],
) -> None:
    """tvm-ffi imports PyTorch if it is installed, so the loops run on OpenMP's threads, which a
    forked child lacks."""
    code = "import os; os.environ['OMP_NUM_THREADS'] = '2'\n" + BEGIN.format(first="")
    assert fresh.run(code + FORKED.format(then=True), libraries["full-parallel"]) == "True 0"


def test_pytorch_program_may_call_a_library_in_a_forked_child(libraries: dict[str, Path]) -> None:
    """The child loads another library as well. PyTorch keeps its number of threads there."""
    then = """
        np.array_equal(
            load(Path(sys.argv[1]).with_name("same-parallel.so"))(x[:1001], w[:7]),
            np.correlate(x[:1001], w[:7], "same"),
        ) and torch.get_num_threads() == 2
    """
    code = "torch.set_num_threads(2)\n" + FORKED.format(then=then)
    assert said(libraries, code) == "True 0"


def test_library_is_right_within_a_parallel_region_of_openmp(libraries: dict[str, Path]) -> None:
    code = """
import ctypes
openmp = ctypes.CDLL(torch._C.__file__)
torch.set_num_threads(3)
said = []
region = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: said.append(right()))
openmp.GOMP_parallel(region, None, 3, 0)
print(said, threads())
"""
    *each, _ = said(libraries, code).rsplit(maxsplit=1)
    assert each == ["[True, True, True]"]


LAUNCHED = """
import ctypes
from tuner.library import openmp
from tuner.library.runtime import load_runtime, take_threads
import torch, tvm_ffi, sys
load_runtime("cpu")
take_threads(2)
module, loaded = tvm_ffi.load_module(sys.argv[1]), ctypes.CDLL(sys.argv[1])
openmp.use_pytorchs(module, loaded, 2)
openmp.use_pytorchs(module, loaded, 2)  # another time changes nothing
Group = ctypes.POINTER(ctypes.c_uint64)
Task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, Group, ctypes.c_void_p)
Launch = ctypes.CFUNCTYPE(ctypes.c_int, Task, ctypes.c_void_p, ctypes.c_int)
launch = Launch(ctypes.c_void_p.in_dll(loaded, "__TVMBackendParallelLaunch").value)
torch.set_num_threads(4)
said = []
def task(number, group, data):
    said.append((number, group[1] & 0xFFFFFFFF))
    return FAILS
"""
"""The beginning of programs that call TVM's launcher of parallel loops as a library does. A task
reads the number of tasks from the second word of its group."""


def test_loop_has_no_more_tasks_than_its_manifest_has_threads(libraries: dict[str, Path]) -> None:
    code = LAUNCHED.replace("FAILS", "0") + "print(launch(Task(task), None, 0), sorted(said))"
    assert run(code, libraries["full-parallel"]) == "0 [(0, 2), (1, 2)]"


def test_loop_that_asks_for_a_number_of_tasks_runs_on_tvms_threads(
    libraries: dict[str, Path],
) -> None:
    """The tasks of a loop that asks for a number of them may wait for each other, which only TVM's
    threads support."""
    code = LAUNCHED.replace("FAILS", "0") + "print(launch(Task(task), None, 2), sorted(said))"
    assert run(code, libraries["full-parallel"]) == "0 [(0, 2), (1, 2)]"


def test_tvm_runs_a_loop_again_if_one_of_its_tasks_fails(libraries: dict[str, Path]) -> None:
    """If a task fails on OpenMP's threads, TVM runs the whole loop again and reports the error."""
    code = LAUNCHED.replace("FAILS", "-1 if number == 1 else 0")
    code += "launch(Task(task), None, 0); print(sorted(said))"
    assert run(code, libraries["full-parallel"]) == "[(0, 2), (0, 2), (1, 2), (1, 2)]"


def test_library_of_an_earlier_release_runs_on_tvms_threads(tmp_path: Path) -> None:
    """Earlier releases linked libraries without openmp.c."""
    made, asked = tmp_path / "library.so", "import torch\nfrom tuner.library import openmp\n"
    code = """
import sys
import tvm
from tvm import te
x = te.placeholder((4096,), name="x")
y = te.compute((4096,), lambda i: x[i] + 1, name="y")
schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
tvm.compile(schedule.mod, target="llvm").export_library(sys.argv[1])
"""
    run(code, made)
    called = """
import ctypes, os, sys
import numpy as np, tvm_ffi
from tuner.library.runtime import load_runtime, take_threads
load_runtime("cpu")
take_threads(2)
module = tvm_ffi.load_module(sys.argv[1])
openmp.use_pytorchs(module, ctypes.CDLL(sys.argv[1]), 2)
x, y = np.ones(4096, np.float32), np.empty(4096, np.float32)
before = len(os.listdir("/proc/self/task"))
module["main"](x, y)
print(bool((y == 2).all()), len(os.listdir("/proc/self/task")) - before)
"""
    assert run(asked + called, made) == "True 1"


def test_library_runs_on_tvms_threads_if_pytorch_lacks_openmp(libraries: dict[str, Path]) -> None:
    first = "import torch\ntorch._C.__file__ = '/nowhere.so'"
    code = """
torch.set_num_threads(1)
before = threads()
print(right(), threads() - before == library.threads - 1)
"""
    assert said(libraries, code, first) == "True True"

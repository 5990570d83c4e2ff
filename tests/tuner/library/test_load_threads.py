"""The number of CPU threads that a library runs on."""

from pathlib import Path

from fresh import run

from tuner.library.load import load


def test_parallel_library_runs_on_all_threads_of_its_manifest(libraries: dict[str, Path]) -> None:
    """A parallel library runs on all threads that its manifest names, and the caller's affinity
    stays. TVM by itself takes half the threads and binds the caller to that many processors."""
    code = """
import os, sys
from pathlib import Path
import numpy as np
from tuner.library.load import load
library, before = load(Path(sys.argv[1])), os.sched_getaffinity(0)
library(np.ones(16384, np.float32), np.ones(32, np.float32))
import tvm_ffi
threads = tvm_ffi.get_global_func("runtime.NumThreads")()
print(threads == library.threads == len(before), os.sched_getaffinity(0) == before)
"""
    assert run(code, libraries["full-parallel"]) == "True True"
    assert load(libraries["full-serial"]).threads == 1


def test_tvm_num_threads_of_the_user_is_kept(libraries: dict[str, Path]) -> None:
    code = """
import os, sys
os.environ["TVM_NUM_THREADS"] = "1"
from pathlib import Path
import numpy as np
from tuner.library.load import load
load(Path(sys.argv[1]))(np.ones(16384, np.float32), np.ones(32, np.float32))
import tvm_ffi
print(tvm_ffi.get_global_func("runtime.NumThreads")())
"""
    assert run(code, libraries["full-parallel"]) == "1"


def test_parallel_library_works_in_a_forked_child(libraries: dict[str, Path]) -> None:
    """A forked child lacks the TVM threads that its parent has started, so it must not wait for
    them."""
    code = """
import os, signal, sys
from pathlib import Path
import numpy as np
from tuner.library.load import load
library = load(Path(sys.argv[1]))
x, w = np.ones(16384, np.float32), np.ones(32, np.float32)
expected = library(x, w)
child = os.fork()
if child == 0:
    signal.alarm(20)  # or it would wait for ever
    os._exit(not np.array_equal(library(x, w), expected))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code, libraries["full-parallel"]) == "0"

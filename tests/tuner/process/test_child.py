"""A child process runs functions for its parent: results, errors, crashes, deadlines, its end."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic_core import PydanticSerializationError

from tests.tuner.measure import remote
from tests.tuner.measure.remote import gone
from tuner.errors import ChildCrashed, ChildError, ChildFailed, ChildTimeout, MachineError
from tuner.process.child import Child
from tuner.process.confine import Confinement
from tuner.process.scratch import used_as_scratch

LONG = 30.0


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child({"PLANTED": "yes"})
    yield child
    child.close()


def test_call_returns_the_functions_result(child: Child) -> None:
    value = {"a": [1, None], "ü": [float("inf")]}
    assert child.call(remote.same, value, timeout=LONG) == value


def test_paused_child_answers_only_after_it_resumes(child: Child) -> None:
    child.pause()  # nothing happens, as the process has not started yet
    pid = child.call(remote.pid, timeout=LONG)
    child.pause()
    with pytest.raises(ChildTimeout):
        child.call(remote.pid, timeout=0.5)
    assert gone(pid)  # a paused process can still be killed at its deadline
    child.call(remote.pid, timeout=LONG)
    child.pause()
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(child.call, remote.pid, timeout=LONG)
        time.sleep(0.3)
        assert not answer.done()
        child.resume()
        assert answer.result() == child.pid


def test_child_starts_with_the_first_call_and_lives_on(child: Child) -> None:
    assert child.pid is None
    first = child.call(remote.pid, timeout=LONG)
    assert first == child.pid != os.getpid()
    assert child.call(remote.pid, timeout=LONG) == first


def test_child_has_the_parents_environment_and_given_variables(child: Child) -> None:
    assert child.call(remote.variable, "PLANTED", timeout=LONG) == "yes"
    assert child.call(remote.variable, "PATH", timeout=LONG) == os.environ["PATH"]


def test_child_has_the_temporary_folder_of_the_thread_that_made_it(tmp_path: Path) -> None:
    with used_as_scratch(tmp_path):
        child = Child()
    with ThreadPoolExecutor(1) as other:
        found = other.submit(child.call, remote.temporary_folder, timeout=LONG).result()
    assert found == str(tmp_path)
    child.close()


def test_an_exception_comes_with_its_traceback_and_the_process_stays(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    with pytest.raises(ChildError, match="planted") as failed:
        child.call(remote.fail, "planted", timeout=LONG)
    assert str(failed.value).splitlines()[-1] == "ValueError: planted"
    assert child.call(remote.pid, timeout=LONG) == before


def test_arguments_and_answers_have_the_annotated_types(child: Child) -> None:
    confinement = Confinement(1, "/folder", ("/dev/null",))
    assert child.call(remote.typed, Path("/a"), confinement, timeout=LONG) == (
        Path("/a/folder"),
        {"nan": pytest.approx(float("nan"), nan_ok=True), "whole": 1.0},
        confinement,
    )


def test_an_answer_that_can_not_be_sent_is_an_error_and_the_process_stays(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    with pytest.raises(ChildError, match="serialize"):
        child.call(remote.without_json, timeout=LONG)
    assert child.call(remote.pid, timeout=LONG) == before


def test_arguments_that_cannot_be_sent_leave_the_child_running(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    with pytest.raises(PydanticSerializationError, match="function"):
        child.call(remote.same, lambda: None, timeout=LONG)
    with pytest.raises(KeyError):
        child.call(remote.without_annotations, 1, timeout=LONG)
    with pytest.raises(ChildError, match="ValidationError"):
        child.call(remote.write, 1, timeout=LONG)
    assert child.call(remote.pid, timeout=LONG) == before


def test_a_function_that_the_child_can_not_find_is_an_error(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> None: ...

    absent.__module__, absent.__qualname__ = remote.__name__, "absent"
    monkeypatch.setattr(remote, "absent", absent, raising=False)
    with pytest.raises(ChildError, match="absent"):
        child.call(absent, timeout=LONG)


def test_crash_is_reported_with_its_signal_and_last_output(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    with pytest.raises(ChildCrashed, match=r"signal SIGSEGV\): about to fall"):
        child.call(remote.crash, timeout=LONG)
    assert child.pid is None
    assert gone(before)
    assert child.call(remote.pid, timeout=LONG) != before


def test_only_the_last_output_of_a_noisy_child_is_kept(child: Child) -> None:
    with pytest.raises(ChildCrashed, match="noise 99999") as failed:
        child.call(remote.noisy, 100_000, timeout=LONG)
    assert len(str(failed.value)) < 2500


def test_exit_is_reported_with_its_code(child: Child) -> None:
    with pytest.raises(ChildCrashed, match="exit code 3"):
        child.call(remote.leave, 3, timeout=LONG)


def test_native_code_that_never_returns_is_killed_at_the_deadline(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    start = time.monotonic()
    with pytest.raises(ChildTimeout, match=r"killed after 0\.3 s"):
        child.call(remote.hang, timeout=0.3)
    assert time.monotonic() - start < 5
    assert gone(before)
    assert child.call(remote.pid, timeout=LONG) != before


def test_child_killed_between_calls_is_replaced(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    os.kill(before, 9)
    assert gone(before)
    assert child.call(remote.pid, timeout=LONG) != before


def test_child_killed_by_sigkill_during_a_call_is_a_machine_error(child: Child) -> None:
    """The kernel, too, sends SIGKILL if memory runs out."""
    with pytest.raises(MachineError, match=r"killed \(signal SIGKILL, which the kernel sends if"):
        child.call(remote.kill_itself, timeout=LONG)


def test_kill_ends_a_call_of_another_thread_and_all_later_ones(child: Child) -> None:
    child.call(remote.pid, timeout=LONG)
    with ThreadPoolExecutor(1) as threads:
        hanging = threads.submit(child.call, remote.hang, timeout=LONG)
        time.sleep(0.1)
        child.kill()
        with pytest.raises(ChildCrashed, match="SIGKILL") as ended:
            hanging.result(timeout=5)
    with pytest.raises(ChildCrashed, match="SIGKILL") as later:
        child.call(remote.pid, timeout=LONG)
    assert {ended.type, later.type} == {ChildCrashed}


def test_close_ends_the_process_and_a_call_starts_another(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    child.close()
    child.close()
    assert child.pid is None
    assert gone(before)
    assert child.call(remote.pid, timeout=LONG) != before


@pytest.mark.parametrize("then", [None, "crash", "hang"])
def test_process_started_by_a_child_ends_with_it(
    child: Child, then: str | None, tmp_path: Path
) -> None:
    told = tmp_path / "pid"
    try:
        child.call(remote.grandchild, then, told, timeout=5 if then == "hang" else LONG)
    except ChildFailed:
        assert then is not None
    else:
        assert then is None
        assert not gone(int(told.read_text()), within=0.1)
        child.close()
    assert gone(int(told.read_text()))


def test_call_passes_large_arguments_and_answers(child: Child) -> None:
    big = "ü" * 2**22
    assert child.call(remote.same, big, timeout=LONG) == big


def test_failed_calls_leave_no_open_files(child: Child) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    for _ in range(5):
        with pytest.raises(ChildCrashed):
            child.call(remote.leave, 1, timeout=LONG)
    assert opened() == before

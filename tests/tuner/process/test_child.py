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

LONG = 30.0


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child({"PLANTED": "yes"})
    yield child
    child.close()


def test_gives_the_result(child: Child) -> None:
    value = {"a": [1, None], "ü": [float("inf")]}
    assert child.call(remote.same, value, timeout=LONG) == value


def test_a_pause_stops_it_and_what_it_started_until_it_goes_on(child: Child) -> None:
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


def test_starts_with_the_first_call_and_lives_on(child: Child) -> None:
    assert child.pid is None
    first = child.call(remote.pid, timeout=LONG)
    assert first == child.pid != os.getpid()
    assert child.call(remote.pid, timeout=LONG) == first


def test_has_the_environment_and_more(child: Child) -> None:
    assert child.call(remote.variable, "PLANTED", timeout=LONG) == "yes"
    assert child.call(remote.variable, "PATH", timeout=LONG) == os.environ["PATH"]


def test_an_exception_comes_with_its_traceback_and_the_process_stays(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    with pytest.raises(ChildError, match="planted") as failed:
        child.call(remote.fail, "planted", timeout=LONG)
    assert str(failed.value).splitlines()[-1] == "ValueError: planted"
    assert child.call(remote.pid, timeout=LONG) == before


def test_what_crosses_has_the_types_of_the_annotations(child: Child) -> None:
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


def test_what_can_not_be_sent_leaves_the_child_as_it_was(child: Child) -> None:
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


def test_a_crash_is_told_with_its_signal_and_last_words(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    with pytest.raises(ChildCrashed, match=r"signal SIGSEGV\): about to fall"):
        child.call(remote.crash, timeout=LONG)
    assert child.pid is None
    assert gone(before)
    assert child.call(remote.pid, timeout=LONG) != before


def test_only_the_last_words_of_a_noisy_process_are_kept(child: Child) -> None:
    with pytest.raises(ChildCrashed, match="noise 99999") as failed:
        child.call(remote.noisy, 100_000, timeout=LONG)
    assert len(str(failed.value)) < 2500


def test_an_exit_is_told_with_its_code(child: Child) -> None:
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


def test_a_process_killed_between_calls_is_replaced(child: Child) -> None:
    before = child.call(remote.pid, timeout=LONG)
    os.kill(before, 9)
    assert gone(before)
    assert child.call(remote.pid, timeout=LONG) != before


def test_a_process_that_somebody_else_kills_blames_the_machine(child: Child) -> None:
    """So does the kernel if memory runs out."""
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
def test_what_the_child_started_ends_with_it(
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


def test_big_arguments_and_answers_cross(child: Child) -> None:
    big = "ü" * 2**22
    assert child.call(remote.same, big, timeout=LONG) == big


def test_nothing_is_left_open(child: Child) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    for _ in range(5):
        with pytest.raises(ChildCrashed):
            child.call(remote.leave, 1, timeout=LONG)
    assert opened() == before

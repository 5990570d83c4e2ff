"""Answers from a child process: an answer in the agreed format is returned; for any other answer
the child is killed."""

import os
import pickle
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.measure import remote
from tests.tuner.measure.remote import gone
from tuner.errors import ChildCrashed, ChildError, ChildTimeout
from tuner.process.child import Child

LONG = 30.0
MOST = 1000


class Shell:
    """An object whose unpickling runs a shell, which creates the file ``touched``."""

    def __init__(self, touched: Path) -> None:
        self._touched = touched

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self._touched}",)


def framed(text: bytes) -> bytes:
    return struct.pack("!I", len(text)) + text


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child(answer_bytes=MOST)
    yield child
    child.close()


def say(child: Child, text: bytes, timeout: float = LONG, stay: float = 0.0) -> Any:
    """Have the child write ``text`` to its parent; return what the parent takes for the answer."""
    return child.call(remote.speak, list(text), stay, timeout=timeout)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "EOF while parsing"),
        (b"\x80\x04N.", "Invalid JSON"),
        (b"[" * 900, "recursion limit"),
        (b"9" * 900, "Input should be a valid"),
        (b'{"value": 1}', "valid array"),
        (b'[1, true, "one"]', "valid integer"),
        (b"[1, true]", "Field required"),
        (b"[1, false, 1]", "Input should be"),
        (b"[7, true, 1]", "it answers call 7, not call 1"),
    ],
)
def test_malformed_answer_ends_the_child(child: Child, text: bytes, says: str) -> None:
    with pytest.raises(ChildCrashed, match=f"killed because its answer is invalid: .*{says}"):
        say(child, framed(text))
    assert child.pid is None
    assert child.call(remote.same, 1, timeout=LONG) == 1


def test_answer_of_another_type_than_annotated_ends_the_child(child: Child) -> None:
    with pytest.raises(ChildCrashed, match="valid integer"):
        child.call(remote.not_as_annotated, timeout=LONG)


def test_pickle_in_an_answer_is_never_loaded(child: Child, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    text = pickle.dumps((True, Shell(touched)))
    for spoken in (text, framed(text), framed(b'[1, true, "' + text.hex().encode() + b'"]')):
        with pytest.raises(ChildCrashed, match="killed because its answer is invalid"):
            say(child, spoken)
    assert not touched.exists()


def test_too_long_answer_is_refused_by_its_length_before_it_is_read(child: Child) -> None:
    assert child.call(remote.long_text, MOST - 13, timeout=LONG) == "x" * (MOST - 13)
    with pytest.raises(ChildCrashed, match=f"{MOST + 1} bytes, but at most {MOST} are read"):
        child.call(remote.long_text, MOST - 12, timeout=LONG)
    with pytest.raises(ChildCrashed, match=f"4294967295 bytes, but at most {MOST}"):
        say(child, b"\xff\xff\xff\xff")


def test_incomplete_answer_is_waited_for_until_the_deadline(child: Child) -> None:
    pid = child.call(remote.pid, timeout=LONG)
    start = time.monotonic()
    with pytest.raises(ChildTimeout, match=r"killed after 0\.5 s"):
        say(child, struct.pack("!I", 9) + b"[1, ", timeout=0.5, stay=LONG)
    assert time.monotonic() - start < 5
    assert gone(pid)


def test_surplus_answer_is_not_taken_for_that_of_the_next_call(child: Child) -> None:
    """If a candidate writes a forged answer, the process's real answer follows while nobody reads.
    It must not be taken for the answer to the next call."""
    assert say(child, framed(b"[1, true, 5]")) == 5
    before = child.pid
    time.sleep(0.5)
    assert child.call(remote.same, 6, timeout=LONG) == 6
    assert child.pid != before


def test_answer_sent_in_advance_is_not_taken_for_that_of_the_next_call(child: Child) -> None:
    assert say(child, framed(b"[1, true, 5]") + framed(b"[2, true, 5]")) == 5
    assert child.call(remote.same, 6, timeout=LONG) == 6


def test_error_whose_message_cannot_be_encoded_is_still_reported(child: Child) -> None:
    with pytest.raises(ChildError, match="ValueError"):
        child.call(remote.fail_unreadably, timeout=LONG)


def test_very_long_error_is_cut() -> None:
    child = Child()
    try:
        with pytest.raises(ChildError) as failed:
            child.call(remote.fail, "x" * 2**21, timeout=LONG)
    finally:
        child.close()
    assert len(failed.value.traceback) < 2**20

"""in_threads() works on every piece once and raises what a piece raises."""

import threading

import pytest

from templates.exact.in_threads import in_threads


def test_in_threads_works_on_every_piece_once() -> None:
    seen: list[int] = []
    in_threads(seen.append, range(1000))
    assert sorted(seen) == list(range(1000))
    in_threads(seen.append, [])


def test_in_threads_raises_the_error_of_a_piece_and_leaves_no_thread() -> None:
    before = threading.active_count()

    def work(piece: int) -> None:
        if piece == 7:
            raise ValueError(piece)

    with pytest.raises(ValueError, match="7"):
        in_threads(work, range(100))
    assert threading.active_count() == before

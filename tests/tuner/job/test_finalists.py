"""The choice of the finalists: the configurations that are measured again in the last round."""

from typing import Any

from tuner.job.finalists import CLOSE, FEWEST, MOST, finalists

Trials = list[tuple[dict[str, Any], float]]


def chosen(trials: Trials, stored: list[dict[str, Any]] | None = None) -> list[int]:
    """Return the numbers ``n`` of the configurations that become finalists, fastest first."""
    found = finalists(trials, stored or [], lambda config: config.get("threads", 2))
    return [config["n"] for config in found]


def test_five_fastest_become_finalists_however_far_apart() -> None:
    assert chosen([({"n": n}, 10.0**n) for n in range(9)]) == list(range(FEWEST))


def test_further_trials_close_to_the_fastest_become_finalists() -> None:
    times = [10.0, 10.1, 10.2, 10.3, 10.4, 10 * CLOSE, 10 * CLOSE + 0.01]
    assert chosen([({"n": n}, time) for n, time in enumerate(times)]) == list(range(6))
    assert chosen([({"n": n}, 1.0) for n in range(100)]) == list(range(MOST))


def test_two_fastest_on_one_thread_become_finalists() -> None:
    trials: Trials = [({"n": n}, 1.0 + n) for n in range(10)]
    slow: Trials = [({"n": n, "threads": 1}, 50.0 + n) for n in range(10, 14)]
    assert chosen(trials + slow) == [0, 1, 2, 3, 4, 10, 11]


def test_two_fastest_on_several_threads_become_finalists() -> None:
    trials: Trials = [({"n": n, "threads": 1}, 1.0 + n) for n in range(10)]
    slow: Trials = [({"n": n}, 50.0 + n) for n in range(10, 14)]
    assert chosen(trials + slow) == [0, 1, 2, 3, 4, 10, 11]


def test_stored_best_becomes_a_finalist_only_once() -> None:
    trials: Trials = [({"n": n}, 1.0 + n) for n in range(10)]
    assert chosen(trials, [{"n": 8}, {"n": 0}]) == [0, 1, 2, 3, 4, 8]


def test_no_trials_give_no_finalists() -> None:
    assert chosen([]) == []

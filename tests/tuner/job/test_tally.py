"""The tally of a job's trials: the best, the failures with their first reason, and the patience."""

from tuner.job.tally import Tally


def test_empty_tally_says_that_the_space_is_empty() -> None:
    tally = Tally()
    assert tally.best(flops=10) is None
    assert tally.why_nothing_worked() == "there is no configuration to try: the space is empty"


def test_tally_counts_failures_of_all_jobs_and_gives_the_first_reason() -> None:
    tally = Tally()
    tally.add({"knob": 1}, "build_error", None, "no\n  such thing", own=False)
    tally.add({"knob": 2}, "wrong_answer", None, "off by one", own=True)
    tally.add_refused("build_error", "not in the space")
    assert tally.total == 2
    assert tally.why_nothing_worked() == (
        "none of 3 configurations worked (2 build_error, 1 wrong_answer); first: no such thing"
    )


def test_tally_suggests_a_larger_max_error_if_all_trials_are_inexact() -> None:
    tally = Tally()
    for knob in (1, 2):
        tally.add({"knob": knob}, "wrong_answer", None, "error 2e-05, allowed 1e-05", own=True)
    assert tally.why_nothing_worked() == (
        "none of 2 configurations worked (2 wrong_answer); first: error 2e-05, allowed 1e-05; "
        "order a larger max_error, if you can accept it"
    )


def test_tally_best_is_the_fastest_trial_of_all_jobs() -> None:
    tally = Tally()
    tally.add({"knob": 1}, "ok", 4.0, None, own=False)
    tally.add({"knob": 2}, "ok", 5.0, None, own=True)
    assert tally.best(flops=8000) == {"config": {"knob": 1}, "time_us": 4.0, "gflops": 2.0}
    assert (tally.total, len(tally.worked)) == (1, 2)


def test_only_the_jobs_own_trials_count_against_its_patience() -> None:
    tally = Tally()
    for time_us, own in ((4.0, True), (5.0, False), (6.0, True), (None, True)):
        tally.add({}, "ok" if time_us else "run_error", time_us, None, own=own)
    assert tally.no_faster == 2
    tally.add({}, "ok", 3.0, None, own=False)
    assert tally.no_faster == 0

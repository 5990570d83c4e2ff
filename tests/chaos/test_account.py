"""The accounts of a storm find planted harm, so a storm without findings means something."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update

from db import queue
from db.results import trials
from db.sql.engine import migrate, open_engine
from db.sql.tables import jobs
from db.sql.transaction import writing
from tests.chaos.account import hold_against, look_over
from tests.chaos.damage import Damage
from tests.chaos.listener import Event, Heard
from tests.db.storage_rows import device, new_trial, submitted

LEASE_SECONDS = 10.0
Line = dict[str, Any]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(f"sqlite:///{tmp_path / 'account.db'}")
    migrate(opened)
    yield opened
    opened.dispose()


@pytest.fixture
def job(engine: Engine) -> queue.Job:
    """A claimed job with two trials of its first attempt."""
    submitted(engine, target="cpu")
    held = queue.claim(engine, "hand", ["cpu"])
    assert held is not None
    store(engine, held, {"knob": 0, "by": 1, "draw": 0.5})
    store(engine, held, {"knob": 1, "by": 1, "draw": 0.5})
    return held


def store(engine: Engine, job: queue.Job, config: dict[str, Any]) -> None:
    new = new_trial(device(engine).id, 0, config=config)
    trials.add(engine, job.id, job.attempt, [new])


def line(job: queue.Job, event: str, at: float, attempt: int = 1, **more: Any) -> Line:
    return {"event": event, "job": job.id, "attempt": attempt, "at": at} | more


def found(engine: Engine, diary: list[Line]) -> dict[str, Any]:
    """Return the fields of the damage that differ from those of a storm without damage."""
    damage = Damage()
    hold_against(engine, diary, LEASE_SECONDS, damage)
    return {
        name: value for name, value in damage.to_json().items() if value != vars(Damage())[name]
    }


def test_confirmed_write_that_is_stored_is_no_harm(engine: Engine, job: queue.Job) -> None:
    diary = [
        line(job, "claimed", 1.0, since=0.9),
        line(job, "stored", 1.1, config={"knob": 0, "by": 1, "draw": 0.5}),
    ]
    assert found(engine, diary) == {}


def test_confirmed_write_that_is_not_stored_is_lost(engine: Engine, job: queue.Job) -> None:
    diary = [
        line(job, "stored", 1.0, config={"knob": 0, "by": 1, "draw": 0.25}),
        line(job, "ended", 2.0, state="succeeded"),
    ]
    assert found(engine, diary) == {"lost": 2}


def test_trial_of_an_earlier_attempt_stored_after_a_later_ones_is_stale(
    engine: Engine, job: queue.Job
) -> None:
    store(engine, job, {"knob": 2, "by": 2, "draw": 0.5})
    store(engine, job, {"knob": 3, "by": 1, "draw": 0.5})
    # attempt 1 wrote after attempt 2, and attempt 2 wrote though the job had only one attempt
    assert found(engine, []) == {"stale": 2}


def test_a_trial_that_is_there_twice_is_doubled(engine: Engine, job: queue.Job) -> None:
    store(engine, job, {"knob": 1, "by": 1, "draw": 0.75})
    assert found(engine, []) == {"doubled": 1}


def test_claim_is_early_before_the_lease_ends_and_ends_an_orphan_after_it(
    engine: Engine, job: queue.Job
) -> None:
    """A claim while the lease is good is early; a later one ends an orphan's wait."""
    diary = [line(job, "claimed", 1.0, since=0.9), line(job, "renewed", 5.0, since=4.5)]
    taken = line(job, "claimed", 14.0, attempt=2, since=13.9)
    assert found(engine, [*diary, taken]) == {"early": 1, "longest_orphan_seconds": 9.0}
    later = line(job, "claimed", 15.0, attempt=2, since=14.4)
    assert found(engine, [*diary, later]) == {"longest_orphan_seconds": 10.0}


def test_refusals_are_counted_and_crashes_are_harm(engine: Engine, job: queue.Job) -> None:
    diary = [
        {"event": "refused", "at": 1.0, "reason": "the database x is not available: locked"},
        {"event": "refused", "at": 1.0, "reason": "attempt 1 no longer holds job 7"},
        {"event": "crashed", "at": 2.0, "traceback": "Traceback\n  …\nKeyError: 'x'\n"},
    ]
    assert found(engine, diary) == {
        "refused": 2,
        "reasons": ["lease_lost", "locked"],
        "crashed": 1,
        "inconsistent": ["KeyError: 'x'"],
    }


def test_unended_jobs_and_successes_without_a_best_are_counted(
    engine: Engine, job: queue.Job
) -> None:
    damage = Damage()
    look_over(engine, damage)
    assert (damage.unended, damage.trials, damage.inconsistent) == (1, 2, [])
    with writing(engine) as connection:
        connection.execute(update(jobs).values(state="succeeded"))
    look_over(engine, damage)
    assert (damage.unended, damage.without_best) == (0, 1)


def test_stream_with_a_gap_a_repeat_or_no_end_is_reported() -> None:
    def heard(*numbers: int, state: str = "succeeded") -> list[str]:
        events = [Event(f"{number}.", "trial", {"number": number}) for number in numbers]
        events.append(Event("end", "state", {"state": state}))
        return Heard("job", events, ended=True).gaps(3)

    assert heard(1, 2, 3) == []
    assert heard(1, 3) == ["job: trials [1, 3], of 3"]
    assert heard(1, 2, 2, 3)[0] == "job: an event came twice"
    assert heard(1, 2, 3, state="running") == ["job: states ['running'], and no end"]


def test_wrong_clock_moves_every_clock_of_a_process_but_the_diarys() -> None:
    code = (
        "import time, db.upkeep.backup, db.sql.columns\n"
        "from datetime import UTC\n"
        "from tests.chaos import diary, wrong_clock\n"
        "before = time.time(), db.upkeep.backup.datetime.now(UTC), diary.clock()\n"
        "wrong_clock.shift(300)\n"
        "after = time.time(), db.upkeep.backup.datetime.now(UTC), diary.clock()\n"
        "print(*(round((b - a).total_seconds() if hasattr(b - a, 'seconds') else b - a)"
        " for a, b in zip(before, after)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["300", "300", "0"]

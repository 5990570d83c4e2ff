"""Short storms over hands; ``make chaos`` runs the long ones."""

from pathlib import Path

import pytest

from tests.chaos import disk
from tests.chaos.damage import Damage, harm
from tests.chaos.hand import Habits
from tests.chaos.locks import locking
from tests.chaos.storm import Storm, rage

LEASE_SECONDS = 2.0
LATE_SECONDS = 20.0
"""Time until another hand claims a job whose lease has run out, on a busy machine."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "storm"
    made.mkdir()
    return made


@pytest.mark.timeout(240)
def test_killed_and_paused_hands_do_no_harm(blank_url: str, folder: Path) -> None:
    storm = Storm({"kill": 25, "pause": 2}, Habits(LEASE_SECONDS), seed=5, jobs=150)
    damage = rage(blank_url, folder, storm)
    assert harm(damage, {"kill": 25, "pause": 2}) == []
    assert damage.trials > 150
    # a killed hand's job waits for the end of its lease and then for another hand's claim
    assert damage.longest_orphan_seconds < LEASE_SECONDS + LATE_SECONDS


@pytest.mark.timeout(240)
def test_hands_with_clocks_wrong_by_5_minutes_do_no_harm(blank_url: str, folder: Path) -> None:
    habits = Habits(LEASE_SECONDS, clocks=(0.0, 300.0, -300.0))
    damage = rage(blank_url, folder, Storm({"kill": 4, "pause": 1}, habits, seed=6, jobs=60))
    assert harm(damage, {"kill": 4, "pause": 1}) == []
    assert damage.longest_orphan_seconds < LEASE_SECONDS + LATE_SECONDS


@pytest.mark.timeout(240)
def test_sqlite_locked_longer_than_any_hand_waits_does_no_harm(
    tmp_path: Path, folder: Path
) -> None:
    path = str(tmp_path / "chaos.db")
    habits = Habits(LEASE_SECONDS, busy_seconds=0.3)
    storm = Storm({"lock": 4}, habits, seed=7, jobs=25, others={"lock": locking(path, 1.0)})
    damage = rage(f"sqlite:///{path}", folder, storm)
    assert harm(damage, {"lock": 4}) == []
    assert "database is locked" in " ".join(damage.reasons)


@pytest.mark.timeout(240)
@pytest.mark.skipif(bool(disk.why_not()), reason=f"no small disk here: {disk.why_not()}")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_full_disk_does_no_harm(kind: str, folder: Path) -> None:
    damage: Damage = disk.fill(kind, folder, fillings=1, seed=8)
    assert harm(damage, {"filling": 1}) == []
    assert damage.refused > 0
    said = "database or disk is full" if kind == "sqlite" else "No space left on device"
    assert said in " ".join(damage.reasons)

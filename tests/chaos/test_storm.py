"""The short form of the chaos suite; ``make chaos`` runs the long one."""

from pathlib import Path

import pytest

from tests.chaos.storm import Storm, rage


@pytest.mark.timeout(120)
def test_nothing_is_lost_doubled_or_stale(blank_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "diaries"
    folder.mkdir()
    storm = Storm(kills=25, pauses=2, lease_seconds=2.0, seed=5, jobs=40, longest_calm=0.2)
    damage = rage(blank_url, folder, storm)
    assert (damage.kills, damage.pauses) == (25, 2)
    assert damage.trials > 40
    assert (damage.unended, damage.lost, damage.doubled, damage.stale) == (0, 0, 0, 0), damage
    assert (damage.without_best, damage.integrity) == (0, "ok")
    # a killed worker's job waits for its lease's end, and then for whoever asks next
    assert damage.longest_orphan_seconds < 2.0 + 5.0

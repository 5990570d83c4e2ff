"""A short storm over real workers; ``make chaos`` runs the long one."""

from pathlib import Path

import pytest

from tests.chaos.damage import harm
from tests.chaos.worker_storm import strike


@pytest.mark.timeout(280)
def test_killed_and_paused_workers_and_killed_children_do_no_harm(tmp_path: Path) -> None:
    blows = {"kill": 2, "pause": 1, "child": 1}
    url = f"sqlite:///{tmp_path / 'chaos.db'}"
    damage = strike(url, tmp_path, blows, seed=10, calm=2.0, hurry=True)
    assert harm(damage, blows) == []
    assert "lease_lost" in damage.reasons  # logged by the worker that was paused

"""A short storm over the service; ``make chaos`` runs the long one."""

from pathlib import Path

import pytest

from tests.chaos.damage import harm
from tests.chaos.locks import locking
from tests.chaos.service_storm import serve


@pytest.mark.timeout(240)
def test_killing_and_restarting_the_service_does_no_harm(
    blank_url: str, dialect: str, tmp_path: Path
) -> None:
    folder = tmp_path / "storm"
    folder.mkdir()
    blows, others = {"service killed": 2}, {}
    if dialect == "sqlite":
        blows |= {"lock": 1}
        others = {"lock": locking(blank_url.removeprefix("sqlite:///"), 2.0)}
    damage = serve(blank_url, folder, blows, seed=9, others=others)
    assert harm(damage, blows) == []

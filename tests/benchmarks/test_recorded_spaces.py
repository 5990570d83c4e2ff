"""The bars of the search, on recorded spaces; and how a space is recorded."""

from pathlib import Path

import pytest

from tests.benchmarks.strategies.compare import COLD, SEEDS, WARM, compared
from tests.benchmarks.strategies.page import AT_MOST
from tests.benchmarks.strategies.record import SHAPES
from tests.benchmarks.strategies.recording import FOLDER, load, names
from tests.benchmarks.strategies.space_json import to_json

RECORDINGS = {name: load(name) for name in names()}


def test_there_are_four_small_files_and_each_can_be_made_again() -> None:
    assert set(SHAPES) == set(RECORDINGS)
    assert len(RECORDINGS) >= 4
    assert all(path.stat().st_size < 200_000 for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_has_a_time_for_each_configuration(name: str) -> None:
    here = RECORDINGS[name]
    assert len(here.times) == len(here.space) >= 500
    assert 1 <= here.good <= len(here.space) / 50
    assert all(here.features(here.space[index]) for index in (0, len(here.space) - 1))


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_space_is_written_as_it_was_read(name: str) -> None:
    for again, stored in zip(
        to_json(RECORDINGS[name].space)["spaces"],
        RECORDINGS[name].space_json["spaces"],
        strict=True,
    ):
        assert again == {field: stored[field] for field in again}


def test_a_recording_is_what_was_saved(tmp_path: Path) -> None:
    here = RECORDINGS["depthwise-7x7k5"]
    here.save(tmp_path / "again.json.gz")
    stored = (FOLDER / "depthwise-7x7k5.json.gz").read_bytes()
    assert (tmp_path / "again.json.gz").read_bytes() == stored


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_bars_hold(name: str) -> None:
    row = compared(name)
    assert {len(trials) for trials in row.trials.values()} == {SEEDS}
    assert row.median(COLD) <= AT_MOST * row.median("random")
    assert row.median(WARM) <= AT_MOST * row.median(COLD)
    assert row.median("evolutionary") < row.median("random")

"""``tuner tune`` with a shape that is tuned already."""

from pathlib import Path

import pytest
from sqlalchemy import Engine
from stored_best import store

from db.results import best as bests
from tests.tuner.shell import ran
from tuner.cli.commands import tune
from tuner.process import logs


def test_a_best_that_is_deleted_after_its_job_has_answered(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine,
    libraries: dict[str, Path],
) -> None:
    job = store(engine, libraries["full-serial"])
    monkeypatch.setattr(tune, "stop_on_signals", lambda: None)  # this process goes on
    monkeypatch.setattr(logs, "quietly", lambda _: None)
    monkeypatch.setattr(bests, "lookup", lambda *_, **__: [])
    code, out, err = ran(
        capsys, "tune", "conv1d", "--M", "16384", "--N", "32", "--trials", "2", "--target", "cpu"
    )
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith(f"tuner: already tuned by job {job.id}")
    assert err.splitlines()[-1] == (
        f"tuner: job {job.id} succeeded, but its best was deleted since; run the same command again"
    )

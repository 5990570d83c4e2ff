"""``tuner tune`` with a shape that already has a best."""

from pathlib import Path

import pytest
from sqlalchemy import Engine
from stored_best import store

from db.results import best as bests
from tests.tuner.shell import ran
from tuner.cli.commands import tune
from tuner.process import logs


def test_tune_reports_a_best_that_was_deleted_after_its_job(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine,
    libraries: dict[str, Path],
) -> None:
    job = store(engine, libraries["full-serial"])
    # The command must not change the signal handlers and the log of this process.
    monkeypatch.setattr(tune, "stop_on_signals", lambda: None)
    monkeypatch.setattr(logs, "configure_warnings_only", lambda _: None)
    monkeypatch.setattr(bests, "lookup", lambda *_, **__: [])
    code, out, err = ran(
        capsys, "tune", "conv1d", "--M", "16384", "--N", "32", "--trials", "2", "--target", "cpu"
    )
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith(f"tuner: already tuned by job {job.id}")
    assert err.splitlines()[-1] == (
        f"tuner: job {job.id} succeeded, but on another device, or its best was deleted since; "
        "run the same command again"
    )

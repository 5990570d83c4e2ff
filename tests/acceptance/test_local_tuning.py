"""Tuning from Python without a service, and the error if there is no compiler."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import ROOT, SECONDS, Database, started, until
from sqlalchemy import update

from db import queue
from db.results import trials
from db.sql.tables import bests
from db.sql.transaction import writing
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.errors import (
    BadOrder,
    NoCompiler,
    NotTuned,
    TunerError,
    UnknownStrategy,
    UntrustedSigner,
    WrongArgument,
)
from tuner.settings import Settings

NOWHERE = "http://127.0.0.1:1"
SHAPE = {"M": 512, "N": 8}
IN_A_THREAD = """
import sys
from threading import Thread
from tuner.client.local import Local
options = {"target": "cpu", "trials": 300, "baselines": "none"}
Thread(target=lambda: Local().tune("conv1d", M=512, N=8, **options)).start()
sys.stdin.read()
"""
IN_A_THREAD_AND_CLOSED = """
import sys
from threading import Thread
from tuner.client.local import Local
local = Local()
options = {"target": "cpu", "trials": 300, "baselines": "none"}
Thread(target=lambda: local.tune("conv1d", M=512, N=8, **options)).start()
sys.stdin.read()
local.close()
"""


def test_client_tunes_locally_and_loads_the_library(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", database.url)
    monkeypatch.setenv("TUNER_BUILD_WORKERS", "2")
    with Client(NOWHERE, cache=tmp_path / "cache") as client:
        best = client.tune("conv1d", SHAPE, target="cpu", trials=2, search="random", bar=True)
        assert "best" in capsys.readouterr().err
        again = client.tune("conv1d", M=512, N=8, target="cpu", trials=2, search="random")
        assert again == best  # reused: no second search
        library = client.load(best)
    with Client(NOWHERE, cache=tmp_path / "cache", signers=["0" * 64]) as strict:
        with pytest.raises(UntrustedSigner):
            strict.load(best)
        mine = strict.tune("conv1d", SHAPE, target="cpu", trials=2, search="random")
        assert strict.load(mine).path == library.path
    x, w = np.arange(512, dtype=np.float32), np.ones(8, np.float32)
    assert np.allclose(library(x, w), np.convolve(x, w))
    assert (best.match, best.trials, best.devices[0].time_us) == ("exact", 2, best.time_us)
    with Local(Settings(database_url=database.url), cache=tmp_path / "cache") as local:
        assert local.best("conv1d", SHAPE) == best
        assert local.load(best).path == library.path
        with pytest.raises(NotTuned, match="run: tuner tune conv1d --M 513 --N 8"):
            local.best("conv1d", M=513, N=8)
        with pytest.raises(UnknownStrategy):
            local.tune("conv1d", SHAPE, search="luck")


@pytest.mark.parametrize("program", [IN_A_THREAD, IN_A_THREAD_AND_CLOSED])
def test_job_of_a_thread_is_given_back_if_the_main_thread_ends_or_closes(
    database: Database, program: str
) -> None:
    """Python's executors take no work any more then, although it waits for the thread."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"TUNER_DATABASE_URL": database.url, "TUNER_BUILD_WORKERS": "1"},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: any(job.trials_measured for job in queue.list_jobs(database.engine).items))
    _, said = process.communicate(timeout=SECONDS)  # closes the standard input
    (job,) = queue.list_jobs(database.engine).items
    assert (job.state, job.error) == ("queued", None)
    assert "the program ends" in said.splitlines()[-1]


def test_best_signed_by_another_key_loads_after_it_is_tuned_again_here(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so. No search here is faster than the best that the other key signed."""
    monkeypatch.setenv("TUNER_BUILD_WORKERS", "2")
    options = {"target": "cpu", "trials": 2, "search": "random", "baselines": "none"}
    settings = Settings(database_url=database.url)
    theirs = settings.model_copy(update={"signing_key": tmp_path / "theirs.pem"})
    with Local(theirs, cache=tmp_path / "cache") as local:
        local.tune("conv1d", SHAPE, **options)
    with writing(database.engine) as connection:
        connection.execute(update(bests).where(bests.c.threads == 1).values(time_us=1e-3))
    with Local(settings, cache=tmp_path / "cache") as local:
        with pytest.raises(UntrustedSigner, match="tune it again here, with --retune"):
            local.load(local.best("conv1d", SHAPE))
        local.tune("conv1d", SHAPE, on_existing="retune", **options)
        again = local.best("conv1d", SHAPE, threads=1)
        assert again.time_us > 1e-3
        local.load(again)


def test_local_tunes_only_the_ordered_templates_and_keeps_its_processes(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", database.url)
    monkeypatch.setenv("TUNER_BUILD_WORKERS", "2")
    shape = {"M": 2048, "N": 128}
    options = {"target": "cpu", "trials": 2, "search": "random", "baselines": "none"}
    before = started()
    with Local(Settings(database_url=database.url), cache=tmp_path / "cache") as local:
        tuned, processes = {}, []
        for name in ("fft", "direct"):
            tuned[name] = local.tune("conv1d", shape, templates=[name], **options)
            processes.append(started() - before)
        assert processes[0] and processes[0] == processes[1]  # the builders are kept
        for name, best in tuned.items():
            assert (best.template, best.arithmetic.kind) == (name, name)
            assert local.best("conv1d", shape, templates=[name]) == best
            assert local.load(best).manifest["arithmetic"] == best.arithmetic.model_dump()
            assert {trial.template for trial in trials_of(database, best.job)} == {name}
        fastest = min(tuned.values(), key=lambda best: best.time_us)
        assert local.best("conv1d", shape) == fastest
        with pytest.raises(BadOrder, match="choose from direct, fft"):
            local.tune("conv1d", shape, templates=["toeplitz"], target="cpu")
        few = {"M": 64, "N": 8}
        with pytest.raises(TunerError, match=r"none applies to .* on .*; those that do: direct"):
            local.tune("conv1d", few, templates=["fft"], **options)
    assert started() <= before


def trials_of(database: Database, job: str) -> list[trials.Trial]:
    return trials.list_trials(database.engine, job).items


@pytest.mark.parametrize("missing", ["tvm", "tuner.client.local"])
def test_client_without_a_compiler_raises_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with (
        Client(NOWHERE, cache=tmp_path) as client,
        pytest.raises(NoCompiler, match="needs TVM's compiler, but"),
    ):
        client.tune("conv1d", SHAPE)
    assert list(tmp_path.iterdir()) == []


def test_local_refuses_a_url_as_settings() -> None:
    url: Any = "sqlite:///convtune.db"
    with pytest.raises(WrongArgument, match=r"settings is a str: give Settings\(database_url=…\)"):
        Local(url)

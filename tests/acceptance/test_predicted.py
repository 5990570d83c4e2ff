"""match=predicted, from a shape that nobody has tuned to a library that computes it."""

from pathlib import Path

import numpy as np
import pytest
from processes import Database
from runs import Bench
from starlette.testclient import TestClient

from api.main import create_app
from api.settings import Settings as ApiSettings
from db import queue
from tuner.client.local import Local
from tuner.compare.comparison import ROUGH_TURNS
from tuner.errors import BadOrder
from tuner.settings import Settings


def test_predicted_job_measures_8_trials_and_a_rough_round(
    database: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round of a prediction is rough, though a setting gives other jobs time to settle."""
    monkeypatch.setenv("TUNER_SETTLE_SECONDS", "0.01")
    asked = "/best/conv1d?M=700&N=9&target=cpu&match=predicted"
    with TestClient(create_app(ApiSettings(database_url=database.url))) as client:
        order = client.get(asked).json()["tune"]
        job = client.request(order["method"], order["url"], json=order["body"]).json()
        ended = bench.run(database, queue.get(database.engine, job["id"]))
        assert (ended.state, ended.trials_measured, ended.trials_ok) == ("succeeded", 8, 8)
        answer = client.get(asked).json()
    assert (answer["match"], answer["verified"], answer["trials"]) == ("predicted", True, 8)
    assert answer["max_error"] <= 1e-5
    fastest = min(database.trials(ended), key=lambda trial: trial.time_us or 1e9)
    finalists = {each["name"]: each["config"] for each in answer["timing"]["finalists"]}
    assert finalists.keys() <= {"finalist 0", "default"}
    assert finalists["finalist 0"] == fastest.config
    assert answer["config"] in finalists.values()
    assert {each["samples"] for each in answer["timing"]["finalists"]} == {ROUGH_TURNS}


def test_searched_best_replaces_a_predicted_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A searched best replaces a predicted one, also for ``match="predicted"``."""
    monkeypatch.setenv("TUNER_DATABASE_URL", database.url)
    monkeypatch.setenv("TUNER_BUILD_WORKERS", "2")
    shape = {"M": 600, "N": 7}
    with Local(Settings(database_url=database.url), cache=tmp_path / "cache") as local:
        with pytest.raises(BadOrder, match="match: must be one of exact, predicted, but it is 'n"):
            local.best("conv1d", shape, match="nearest")
        best = local.best("conv1d", shape, match="predicted", target="cpu")
        assert (best.match, best.trials) == ("predicted", 8)
        assert local.best("conv1d", shape, match="predicted") == best
        x, w = np.arange(600, dtype=np.float32), np.ones(7, np.float32)
        assert np.allclose(local.load(best)(x, w), np.convolve(x, w))
        searched = local.tune(
            "conv1d", shape, target="cpu", trials=4, search="random", baselines="none"
        )
        assert (searched.match, searched.job != best.job) == ("exact", True)
        assert local.best("conv1d", shape, match="predicted") == searched

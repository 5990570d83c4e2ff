"""A layer takes the best of its own CPU if there is one, else that of another CPU."""

from pathlib import Path

import pytest
from stored_best import store_on_another_cpu

from db.sql.engine import migrate, open_engine
from templates.conv1d.workload import Conv1dWorkload
from tuner.client.local import Local
from tuner.device import cpu_facts
from tuner.settings import Settings

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tuner.torch.lookup.source_lookup import best_of  # noqa: E402

pytestmark = pytest.mark.torch
OTHER = "CPU of another host"
SHAPE = {"M": 64, "N": 3}


def test_layer_prefers_the_best_of_its_own_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key"))
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'convtune.db'}")
    work, cpu = Conv1dWorkload(**SHAPE), torch.device("cpu")
    engine = open_engine(settings.database_url)
    migrate(engine)
    store_on_another_cpu(engine, work, OTHER)
    engine.dispose()
    with Local(settings, cache=tmp_path / "cache") as source:
        assert best_of(source, work, cpu).device.name == OTHER
        source.tune("conv1d", SHAPE, target="cpu", trials=1, baselines="none")
        assert best_of(source, work, cpu).device.name == cpu_facts.name()

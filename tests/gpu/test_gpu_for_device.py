"""Orders that ``optimize_`` makes for a model on a GPU are for that GPU."""

from pathlib import Path
from typing import Literal

import pytest

from db import queue
from db.contract.order import JobFilter
from db.sql.engine import open_engine
from tuner.client.local import Local
from tuner.settings import Settings

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


@pytest.mark.parametrize("on_missing", ["predicted", "tune"])
def test_a_missing_layer_is_ordered_for_the_models_gpu(
    tmp_path: Path, on_missing: Literal["predicted", "tune"]
) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'convtune.db'}")
    layer = nn.Sequential(nn.Conv2d(64, 64, 7, padding=3, groups=64)).cuda().eval()
    x = torch.randn(8, 64, 28, 28, device="cuda")
    with Local(settings, cache=tmp_path / "cache") as source:
        report = optimize_(layer, x, source=source, on_missing=on_missing)
    assert [row.by for row in report.rows] == ["tuned"], str(report)
    engine = open_engine(settings.database_url)
    [job] = queue.list_jobs(engine, JobFilter()).items
    engine.dispose()
    assert (job.state, job.target) == ("succeeded", "cuda")
    if on_missing == "tune":  # a prediction is only made here, and its order needs no name
        assert job.for_device == torch.cuda.get_device_name()

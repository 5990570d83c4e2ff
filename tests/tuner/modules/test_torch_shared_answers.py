"""Equal layers of a model ask their source once for a shape, until one of them forgets."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from stored_best import store

from db.sql.engine import open_engine
from tuner.client.answers import Best
from tuner.client.local import Local
from tuner.settings import Settings

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


class Counting(Local):
    """A database that counts how often it is asked for a best."""

    asked = 0

    def best(self, *given: Any, **named: Any) -> Best:
        self.asked += 1
        return super().best(*given, **named)


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Counting]:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'convtune.db'}")
    with Counting(settings, cache=tmp_path / "cache") as source:
        yield source


def layers(count: int) -> Any:
    """Return a model of equal layers, whose workload for the fixture ``x`` is ``biased``."""
    return nn.Sequential(*(nn.Conv2d(6, 6, 3, padding=1, groups=6) for _ in range(count))).eval()


def asked(source: Counting, model: Any, x: Any) -> int:
    """Return how often the source is asked in a call of the model."""
    before = source.asked
    outputs(model, x)
    return source.asked - before


def test_equal_layers_ask_the_source_once(counting: Counting, x: Any) -> None:
    one, three, other = layers(1), layers(3), nn.Sequential(nn.Conv2d(6, 6, 3, groups=6))
    for each in (one, three, other):
        optimize_(each, source=counting)
    expected = asked(counting, one, x)
    assert expected > 0
    assert asked(counting, three, x) == expected
    assert all(each.used == "pytorch" and "tuner tune" in each.reason for each in three)
    assert asked(counting, three, x) == 0
    assert asked(counting, three, x[:1]) == expected
    assert asked(counting, other, x) == expected
    assert asked(counting, deepcopy(three), x) == expected


def test_layer_asks_the_source_again_after_forget(
    counting: Counting, libraries: dict[str, Path], x: Any
) -> None:
    model = layers(3)
    optimize_(model, source=counting)
    outputs(model, x)
    engine = open_engine(counting.settings.database_url)
    store(engine, libraries["biased-serial"])
    engine.dispose()
    outputs(model, x)
    assert [each.used for each in model] == ["pytorch"] * 3
    model[1].forget()
    outputs(model, x)
    assert [each.used for each in model] == ["pytorch", "tuned", "pytorch"]
    for each in model:
        each.forget()
    outputs(model, x)
    assert [each.used for each in model] == ["tuned"] * 3

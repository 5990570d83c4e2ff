"""The table of features by which a model of times sees a space's configurations."""

import math
from typing import Any

import numpy as np
import pytest

from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tuner.search.features import FeatureTable


def union() -> UnionSpace:
    direct, tiled = ConfigSpace("direct", 1), ConfigSpace("tiled", 1)
    direct.knob("threads", [32, 64, 128])
    direct.knob("weights", ["shared", "global"])
    direct.knob("stage", [1, 2], when={"weights": "shared"})
    tiled.split("tile", extent=16, parts=2)
    tiled.knob("always", [7])
    return UnionSpace([direct, tiled])


def derived(config: dict[str, Any]) -> dict[str, float]:
    if config["template"] == "tiled":
        return {"inner": config["tile"][1], "bad": math.inf}
    return {"warps": config["threads"] / 32}


def test_feature_row_begins_with_scaled_knobs_and_has_nan_for_absent_values() -> None:
    space, nan = union(), math.nan
    table = FeatureTable(space, derived)
    shared = space.index({"template": "direct", "threads": 64, "weights": "shared", "stage": 2})
    straight = space.index({"template": "direct", "threads": 128, "weights": "global"})
    tiled = space.index({"template": "tiled", "tile": [4, 4], "always": 7})
    rows = table.rows([shared, straight, tiled])
    assert table.knob_columns == 2 + 1 + 2 + 1 + 2
    expected = [
        [1, 0, 0.5, 1, 0, 1, nan, nan, 2],
        [1, 0, 1, 0, 1, nan, nan, nan, 4],
        [0, 1, nan, nan, nan, nan, 0.6, 0.6, nan],
    ]
    np.testing.assert_allclose(rows[:, :9], np.array(expected), rtol=1e-6)
    np.testing.assert_array_equal(rows[:, 9], [nan, nan, 4])
    assert np.isnan(rows[:, 10]).all()


@pytest.mark.parametrize("size", [10, 1000])
def test_features_of_a_configuration_are_computed_once(size: int) -> None:
    space = ConfigSpace("direct", 1)
    space.knob("threads", list(range(1, size + 1)))
    calls = []
    table = FeatureTable(space, lambda c: calls.append(c["threads"]) or {"n": c["threads"]})
    forward = table.rows(range(size))
    backward = table.rows(range(size)[::-1])
    assert len(calls) == size
    np.testing.assert_array_equal(forward, backward[::-1])
    np.testing.assert_array_equal(forward[:, 1], np.arange(1, size + 1))


def test_knob_value_of_another_type_is_not_taken_for_the_spaces_own() -> None:
    table = FeatureTable(union(), lambda _: {})
    strange = {"template": "direct", "threads": "all", "weights": 3, "tile": [16]}
    row = table.at([table.add(strange, {})])[0]
    np.testing.assert_allclose(row, [1, 0, math.nan, 0, 0, math.nan, math.nan, math.nan])
    texts = {"template": "tiled", "tile": "16"}
    assert np.isnan(table.at([table.add(texts, {})])[0, -2:]).all()

"""UnionSpace: the spaces of several templates one after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.errors import InvalidConfig, InvalidSpace
from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tests.templates.spaces import Plan, plans

PLANS = st.tuples(plans("direct"), plans("tiled"), plans("naive"))


def union_of(several: tuple[Plan, ...]) -> UnionSpace:
    return UnionSpace([plan.space() for plan in several])


@given(PLANS)
def test_union_holds_its_spaces_one_after_the_other(several: tuple[Plan, ...]) -> None:
    union = union_of(several)
    expected = [config for plan in several for config in plan.expected()]
    assert list(union) == [union[i] for i in range(len(union))] == expected
    assert [union.index(config) for config in expected] == list(range(len(union)))


@given(PLANS, st.integers(0, 60), st.integers(0, 99))
def test_union_sample_is_distinct_and_neighbours_keep_their_template(
    several: tuple[Plan, ...], count: int, seed: int
) -> None:
    union = union_of(several)
    exclude = set(range(0, len(union), 3))
    drawn = union.sample(np.random.default_rng(seed), count, exclude)
    assert len(drawn) == len(set(drawn)) == min(count, len(union) - len(exclude))
    assert not exclude & set(drawn)
    for index in drawn[:3]:
        for neighbour in union.neighbours(index):
            assert union[neighbour]["template"] == union[index]["template"]
            assert index in union.neighbours(neighbour)


@given(PLANS, st.integers(0, 60), st.integers(0, 99))
def test_union_has_a_part_for_each_template_that_can_be_sampled_alone(
    several: tuple[Plan, ...], count: int, seed: int
) -> None:
    union = union_of(several)
    assert [index for part in union.parts for index in part] == list(range(len(union)))
    for part, space in zip(union.parts, union.spaces, strict=True):
        assert {union[index]["template"] for index in part} <= {space.template}
        exclude = set(part[::3])
        drawn = union.sample(np.random.default_rng(seed), count, exclude, part)
        assert len(drawn) == len(set(drawn)) == min(count, len(part) - len(exclude))
        assert set(drawn) <= set(part) - exclude


def two() -> UnionSpace:
    direct, tiled = ConfigSpace("direct", 1), ConfigSpace("tiled", 2)
    direct.knob("threads", [32, 64])
    tiled.knob("threads", [64, 128])
    tiled.knob("stage", [True, False])
    return UnionSpace([direct, tiled])


def test_union_knobs_are_the_template_and_then_all_knobs_merged() -> None:
    assert {knob.name: knob.values for knob in two().knobs} == {
        "template": ("direct", "tiled"),
        "threads": (32, 64, 128),
        "stage": (True, False),
    }


@pytest.mark.parametrize(
    "hostile",
    [None, {}, {"template": "naive"}, {"template": ["direct"]}, {"template": "direct"}, []],
)
def test_union_refuses_unknown_templates_and_incomplete_configurations(hostile: object) -> None:
    """A value without the name of one of the union's templates is refused, as is a configuration
    without all of its knobs."""
    assert hostile not in two()
    with pytest.raises(InvalidConfig):
        two().index(hostile)


@pytest.mark.parametrize("index", [-1, 6])
def test_index_outside_the_union_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        two()[index]


def test_two_spaces_of_one_template_are_refused() -> None:
    with pytest.raises(InvalidSpace, match="one template"):
        UnionSpace([ConfigSpace("direct", 1), ConfigSpace("direct", 2)])


def test_union_of_no_spaces_is_empty() -> None:
    assert len(UnionSpace([])) == 0
    assert UnionSpace([]).sample(np.random.default_rng(0), 3) == []

"""ConfigSpace: the configurations it has, its samples and neighbours, and what it refuses."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from templates.errors import InvalidConfig, InvalidSpace, SpaceTooLarge
from templates.spaces.knob import factorisations
from templates.spaces.space import ConfigSpace
from tests.templates.spaces import Plan, plans


def direct() -> ConfigSpace:
    space = ConfigSpace("direct", version=1)
    space.knob("threads", [32, 64, 128])
    space.knob("weights", ["shared", "registers"])
    space.knob("weight_stage", [1, 2], when={"weights": "shared"})
    space.split("tile", extent=8, parts=2)
    space.constraint("at most 256 outputs", lambda c: c["threads"] * c["tile"][1] <= 256)
    return space


@given(plans())
def test_space_holds_exactly_the_valid_configurations_in_order(plan: Plan) -> None:
    assert list(plan.space()) == plan.expected()


@given(plans())
def test_index_and_configuration_are_one_to_one(plan: Plan) -> None:
    space = plan.space()
    assert [space.index(space[i]) for i in range(len(space))] == list(range(len(space)))
    assert all(config in space for config in space)


@given(plans(), st.integers(0, 40), st.integers(0, 2**32), st.integers(1, 5))
def test_sample_has_no_repeated_or_excluded_index(
    plan: Plan, count: int, seed: int, stride: int
) -> None:
    space = plan.space()
    exclude = set(range(0, len(space), stride))
    drawn = space.sample(np.random.default_rng(seed), count, exclude)
    assert len(drawn) == len(set(drawn)) == min(count, len(space) - len(exclude))
    assert all(0 <= index < len(space) and index not in exclude for index in drawn)
    assert drawn == space.sample(np.random.default_rng(seed), count, exclude)


@given(plans(), st.data())
def test_neighbours_differ_in_exactly_one_common_knob(plan: Plan, data: st.DataObject) -> None:
    space = plan.space()
    assume(len(space))
    index = data.draw(st.integers(0, len(space) - 1))
    here = space[index]

    def differing(other: dict[str, Any]) -> int:
        return sum(here[name] != other[name] for name in here.keys() & other.keys())

    expected = [i for i, other in enumerate(space) if differing(other) == 1]
    assert space.neighbours(index) == expected
    assert all(index in space.neighbours(other) for other in expected)


@given(
    plans(), st.dictionaries(st.text(max_size=5), st.text() | st.lists(st.integers()) | st.none())
)
def test_dict_that_is_no_configuration_of_the_space_is_refused(
    plan: Plan, config: dict[str, Any]
) -> None:
    """Any dict that is no configuration of the space is refused, with or without "template"."""
    space = plan.space()
    for hostile in (config, config | {"template": "direct"}):
        if hostile not in plan.expected():
            assert hostile not in space
            with pytest.raises(InvalidConfig):
                space.index(hostile)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threads": 48}, ["threads", "48", "[32, 64, 128]"]),
        ({"threads": "64"}, ["threads", "[32, 64, 128]"]),
        ({"threads": 64.0}, ["threads"]),
        ({"weight_stage": True}, ["weight_stage", "[1, 2]"]),
        ({"weights": {}}, ["weights"]),
        ({"weights": "registers"}, ["weight_stage", 'weights is "shared"']),
        ({"tile": (4, 2)}, ["tile"]),
        ({"tile": [[4], [2]]}, ["tile"]),
        ({"tile": [2, 5]}, ["tile", "[2, 4]"]),
        ({"threads": 128, "tile": [1, 8]}, ["at most 256 outputs"]),
        ({"unroll": 4}, ["unroll", "threads, weights"]),
        ({"template": "tiled"}, ["template", "direct"]),
    ],
)
def test_refusal_names_the_wrong_knob_or_constraint(
    change: dict[str, Any], words: list[str]
) -> None:
    space = direct()
    sound = {"template": "direct", "threads": 32, "weights": "shared", "weight_stage": 1}
    sound["tile"] = [4, 2]
    assert sound in space
    with pytest.raises(InvalidConfig) as refusal:
        space.index(sound | change)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize("hostile", [None, [], "direct", 3, {}, {"template": []}, {1: 2}])
def test_value_that_is_no_configuration_is_refused(hostile: object) -> None:
    assert hostile not in direct()
    with pytest.raises(InvalidConfig):
        direct().index(hostile)


def test_refusal_names_a_missing_knob() -> None:
    with pytest.raises(InvalidConfig, match="weights: missing"):
        direct().index({"template": "direct", "threads": 32})


@given(plans(), st.data())
def test_completed_gives_each_missing_knob_its_first_value(plan: Plan, data: st.DataObject) -> None:
    space = plan.space()
    assume(len(space))
    whole = space[data.draw(st.integers(0, len(space) - 1))]
    lacked = data.draw(st.sets(st.sampled_from([*whole]))) - {"template"}
    kept = {name: value for name, value in whole.items() if name not in lacked}
    completed = space.completed(kept)
    added = {
        knob.name: knob.values[0]
        for knob in space.knobs
        if knob.name not in kept and knob.present(completed)
    }
    assert completed == kept | added
    assert space.completed(whole) == whole


def test_refusal_names_a_broken_constraint_if_a_later_one_would_raise() -> None:
    space = ConfigSpace("direct", 1)
    space.knob("stage", [0, 1])
    space.knob("tile", [1, 2])
    space.constraint("even share", lambda c: 8 % c["stage"] == 0)
    space.constraint("has a stage", lambda c: c["stage"] > 0, reads=["stage"])
    with pytest.raises(InvalidConfig, match="has a stage"):
        space.index({"template": "direct", "stage": 0, "tile": 1})


@pytest.mark.parametrize("index", [-1, 10**6])
def test_index_outside_the_space_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        direct()[index]


def test_changing_a_configuration_does_not_change_the_space() -> None:
    """A configuration is a copy: changing its lists does not change the space."""
    space = direct()
    space[0]["tile"][0] = 99
    assert space[0]["tile"] == [1, 8]


@given(st.integers(1, 500), st.integers(1, 4), st.none() | st.integers(1, 16))
def test_splits_are_all_the_factorisations(extent: int, parts: int, bound: int | None) -> None:
    found = factorisations(extent, parts, bound)
    assert all(int(np.prod(split)) == extent and len(split) == parts for split in found)
    assert all(factor <= (bound or extent) for split in found for factor in split[1:])
    assert found == sorted(map(list, {tuple(split) for split in found}))
    if parts == 2 and bound is None:
        assert len(found) == sum(extent % d == 0 for d in range(1, extent + 1))


def test_wrong_declarations_are_refused() -> None:
    space = direct()
    for values in ([], [1, 1], [1, True], [1, 1.0], [float("nan")], [{}], [[1]]):
        with pytest.raises(InvalidSpace):
            space.knob("bad", values)  # type: ignore[arg-type]
    for name in ("", "template", "threads"):
        with pytest.raises(InvalidSpace):
            space.knob(name, [1])
    for when in ({"unknown": 1}, {"threads": 48}, {"threads": []}):
        with pytest.raises(InvalidSpace):
            space.knob("bad", [1], when=when)
    with pytest.raises(InvalidSpace):
        space.split("bad", extent=0, parts=2)
    assert len(space) == 27
    with pytest.raises(InvalidSpace, match="frozen"):
        space.knob("late", [1])


@pytest.mark.parametrize("reads", [(), ("nothing",)])
def test_constraint_on_an_undeclared_knob_is_refused(reads: tuple[str, ...]) -> None:
    space = direct()
    space.constraint("nonsense", lambda c: c["nothing"] > 0, reads)
    with pytest.raises(InvalidSpace, match="nothing"):
        space.freeze()


def large(values: int, knobs: int) -> ConfigSpace:
    space = ConfigSpace("large", 1)
    for place in range(knobs):
        space.knob(f"knob{place}", list(range(values)))
    return space


def test_a_million_combinations_are_enumerated_in_seconds() -> None:
    space = large(values=2, knobs=20)
    space.constraint("not all ones", lambda c: sum(c.values()) < 20)
    before = time.process_time()
    assert len(space) == 2**20 - 1
    assert time.process_time() - before < 15  # 0.3 s to 2 s on an idle machine


def test_too_large_space_is_refused_unless_constraints_cut_it_early() -> None:
    with pytest.raises(SpaceTooLarge, match="reads="):
        large(values=8, knobs=9).freeze()
    with pytest.raises(SpaceTooLarge):
        large(values=1000, knobs=30).freeze()
    space = large(values=8, knobs=9)
    for place in range(8):
        a, b = f"knob{place}", f"knob{place + 1}"
        space.constraint(f"{a} is {b}", lambda c, a=a, b=b: c[a] == c[b], reads=[a, b])
    assert len(space) == 8


def test_constraint_is_called_once_for_each_combination_it_reads() -> None:
    """A constraint is called once for each combination of the knobs that it reads, not for each
    configuration."""
    asked: list[str | None] = []
    space = ConfigSpace("direct", version=1)
    space.knob("edges", ["exact", "padded"])
    space.knob("lanes", ["planes", "columns"], when={"edges": "padded"})
    space.knob("rows", list(range(100)))

    def holds(config: dict[str, Any]) -> bool:
        asked.append(config.get("lanes"))
        return config.get("lanes") != "columns"

    space.constraint("no columns", holds)
    assert len(space) == 200
    assert set(asked) == {None, "planes", "columns"}
    assert len(asked) <= 2 * 3  # at most once more each, to find what it reads, and not 300 times


READERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "an item": lambda c: c["last"],
    "get": lambda c: c.get("last"),
    "items": lambda c: dict(c.items())["last"],
    "values": lambda c: list(c.values())[-1],
    "iteration": lambda c: [c[name] for name in c][-1],
    "keys": lambda c: {name: c[name] for name in c.keys()}["last"],  # noqa: SIM118
    "unpacking": lambda c: {**c}["last"],
    "arguments": lambda c: dict(**c)["last"],
    "a copy": lambda c: c.copy()["last"],
    "a union": lambda c: (c | {"more": 1})["last"],
    "a union from the right": lambda c: ({"more": 1} | c)["last"],
    "equality": lambda c: c == {"first": 1, "last": 2} and 2,
    "inequality": lambda c: (c != {"first": 1, "last": 2}) or 2,
    "JSON": lambda c: json.loads(json.dumps(c))["last"],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_space_notices_any_way_in_which_a_constraint_reads_a_knob(
    read: Callable[[dict[str, Any]], object],
) -> None:
    """However a constraint reads a knob, the space notices that the constraint depends on it."""
    space = ConfigSpace("direct", version=1)
    space.knob("first", [1])
    space.knob("last", [1, 2, 3])
    space.constraint("two at last", lambda c: read(c) == 2)
    assert [config["last"] for config in space] == [2]


@pytest.mark.parametrize("reads", [lambda c: "last" in c, lambda c: len(c) == 2, bool])
def test_space_notices_a_constraint_on_the_presence_of_a_knob(
    reads: Callable[[dict[str, Any]], bool],
) -> None:
    """A constraint that only asks whether a conditional knob is there depends on it, too."""
    space = ConfigSpace("direct", version=1)
    space.knob("first", [1, 2])
    space.knob("last", [1], when={"first": 2})
    space.constraint("the last is there", lambda c: c["first"] == 1 or reads(c))
    assert len(space) == 2
    space = ConfigSpace("direct", version=1)
    space.knob("first", [1, 2])
    space.knob("last", [1], when={"first": 2})
    space.constraint("the last is not there", lambda c: not reads(c) or len(c) == 1)
    assert list(space) == [{"template": "direct", "first": 1}]


@given(plans())
def test_membership_is_decided_without_enumerating_the_space(plan: Plan) -> None:
    """``config in space`` does not enumerate the space, which would freeze it."""
    space, valid = plan.space(), plan.expected()
    for config in replace(plan, modulus=1, early=False).expected()[:200]:
        assert (config in space) == (config in valid)
    space.knob("later", [1])  # raises if the space was enumerated, and so frozen

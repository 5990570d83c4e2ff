"""Hostile configurations: any value outside the space is refused with a short InvalidConfig."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.errors import InvalidConfig
from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tests.hostile import VALUES, mutated, nested
from tests.templates.devices import CPU, H200

MESSAGE = 4000
SHAPES: list[dict[str, Any]] = [{"M": 400, "N": 31}, {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}]
SPACES = {
    (operator.name, template.kind, template.name): template.space(workload, limits)
    for operator, shape in zip(templates.operators(), SHAPES, strict=True)
    for workload in [operator.workload.model_validate(shape)]
    for limits in (CPU, H200)
    for template in templates.templates_for(workload, limits)
}
UNIONS = [
    UnionSpace([space for key, space in SPACES.items() if key[:2] == (operator.name, kind)])
    for operator in templates.operators()
    for kind in ("cpu", "cuda")
]
PLACES = st.sampled_from(UNIONS).flatmap(
    lambda space: st.tuples(st.just(space), st.integers(0, len(space) - 1))
)


def refused(space: ConfigSpace | UnionSpace, config: object) -> None:
    """Assert that a space refuses a configuration, in a short message that can be encoded."""
    with pytest.raises(InvalidConfig) as said:
        space.index(config)
    assert len(str(said.value)) < MESSAGE
    str(said.value).encode()  # a message with a lone surrogate could not be written anywhere


@settings(max_examples=300)
@given(PLACES, st.data())
def test_changed_configuration_is_valid_or_refused(
    place: tuple[UnionSpace, int], data: st.DataObject
) -> None:
    """A changed configuration is either in the space and found unchanged, or it is refused."""
    space, index = place
    config = data.draw(mutated(space[index]))
    if config in space:
        found = space[space.index(config)]
        assert json.dumps(found, sort_keys=True) == json.dumps(config, sort_keys=True)
    else:
        refused(space, config)


@settings(max_examples=100)
@given(st.sampled_from([*SPACES.values(), *UNIONS]), VALUES)
def test_any_value_is_refused_as_configuration_template_or_knob(
    space: ConfigSpace | UnionSpace, value: Any
) -> None:
    """Any value is refused as a configuration, as a template's name and as a knob's value."""
    refused(space, value)
    refused(space, {"template": value})
    for template in {key[2] for key in SPACES}:
        refused(space, {"template": template, "threads": value})


@pytest.mark.parametrize(
    "value",
    [10**5000, nested(5000), float("nan"), "\ud800" * 10_000],
    ids=["digits", "deep", "NaN", "surrogates"],
)
def test_value_without_a_short_text_is_refused_in_a_short_message(value: Any) -> None:
    """Values whose text is long, deep, no JSON or no Unicode are refused in a short message."""
    for space in (*SPACES.values(), *UNIONS):
        for config in (value, {"template": value}, space[0] | {"x": value}):
            refused(space, config)
        name = next(name for name in space[0] if name != "template")
        refused(space, space[0] | {name: value})
        refused(space, space[0] | {"\ud800" * 10_000: 1})

"""Write a space as JSON and read it. The JSON has the knobs, and the run lengths of invalid and
valid combinations in turn. Knobs must have no conditions and no lists as values."""

from __future__ import annotations

import json
from itertools import accumulate, chain, groupby, product
from typing import Any

from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace


def to_json(union: UnionSpace) -> dict[str, Any]:
    return {"spaces": [_space_to_json(space) for space in union.spaces]}


def from_json(document: dict[str, Any]) -> UnionSpace:
    """Return a space with the same configurations at the same indices."""
    return UnionSpace([_space_from_json(space) for space in document["spaces"]])


def _space_to_json(space: ConfigSpace) -> dict[str, Any]:
    knobs = {knob.name: knob.values for knob in space.knobs}
    assert not any(knob.when for knob in space.knobs)
    valid = [{"template": space.template} | config in space for config in _combinations(knobs)]
    runs = [(taken, sum(1 for _ in run)) for taken, run in groupby(valid)]
    if runs[0][0]:
        runs.insert(0, (False, 0))
    if not runs[-1][0]:
        runs.pop()
    return {
        "template": space.template,
        "version": space.version,
        "size": len(space),
        "knobs": [{"name": name, "values": list(values)} for name, values in knobs.items()],
        "valid_runs": [length for _, length in runs],
    }


def _space_from_json(document: dict[str, Any]) -> ConfigSpace:
    space = ConfigSpace(document["template"], document["version"])
    knobs = {knob["name"]: knob["values"] for knob in document["knobs"]}
    for name, values in knobs.items():
        space.knob(name, values)
    bounds = list(accumulate(document["valid_runs"]))
    taken = set(chain.from_iterable(map(range, bounds[0::2], bounds[1::2])))
    valid = {json.dumps(c) for place, c in enumerate(_combinations(knobs)) if place in taken}
    space.constraint("it was recorded", lambda config: json.dumps(config) in valid)
    assert len(space) == document["size"]
    return space


def _combinations(knobs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all combinations of the knobs' values. The last knob varies fastest."""
    return [dict(zip(knobs, values, strict=True)) for values in product(*knobs.values())]

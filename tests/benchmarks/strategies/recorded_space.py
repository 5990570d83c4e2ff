"""A search space of the configurations that were recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, groupby, pairwise, starmap

from templates.errors import InvalidConfig
from templates.spaces.knob import Config, Knob, distinct
from templates.spaces.search_space import SearchSpace


class RecordedSpace(SearchSpace):
    """A space with exactly the given configurations. It does not change with the templates.

    All configurations of one template must follow each other.
    """

    def __init__(self, configs: Sequence[Config]) -> None:
        self._configs = list(configs)
        self._places = {_name(config): place for place, config in enumerate(configs)}

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        values = defaultdict(list)
        for config in self._configs:
            for name, value in config.items():
                values[name].append(value)
        return tuple(Knob(name, tuple(distinct(found))) for name, found in values.items())

    @cached_property
    def parts(self) -> tuple[range, ...]:
        groups = groupby(self._configs, lambda config: config["template"])
        sizes = [sum(1 for _ in group) for _, group in groups]
        return tuple(starmap(range, pairwise([0, *accumulate(sizes)])))

    def __len__(self) -> int:
        return len(self._configs)

    def __getitem__(self, index: int) -> Config:
        return dict(self._configs[index])

    def index(self, config: object) -> int:
        place = self._places.get(_name(config)) if isinstance(config, dict) else None
        if place is None:
            raise InvalidConfig("it was not recorded")
        return place

    def neighbours(self, index: int) -> list[int]:
        alike = (self._alike[key] for key in _without_one(self._configs[index]))
        return sorted({place for group in alike for place in group if place != index})

    @cached_property
    def _alike(self) -> dict[str, list[int]]:
        """The places of configurations that agree in all knobs but one."""
        found = defaultdict(list)
        for place, config in enumerate(self._configs):
            for key in _without_one(config):
                found[key].append(place)
        return found


def _name(config: Config) -> str:
    return json.dumps(config, sort_keys=True)


def _without_one(config: Config) -> list[str]:
    names = [name for name in config if name != "template"]
    return [
        _name({k: v for k, v in config.items() if k != name} | {"without": name}) for name in names
    ]

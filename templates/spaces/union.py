"""Search space of a job: the spaces of all its templates, one after the other."""

import operator
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise, starmap

from templates.errors import InvalidConfig, InvalidSpace
from templates.spaces.knob import Config, Knob, Value, distinct, quoted
from templates.spaces.search_space import SearchSpace
from templates.spaces.space import ConfigSpace


class UnionSpace(SearchSpace):
    """The spaces of several templates as one sequence.

    A configuration's "template" says to which space it belongs. Raise InvalidSpace if two spaces
    are of one template. Raise also what freezing the spaces raises.
    """

    def __init__(self, spaces: Sequence[ConfigSpace]) -> None:
        self.spaces = tuple(spaces)
        self._place = {space.template: place for place, space in enumerate(self.spaces)}
        if len(self._place) != len(self.spaces):
            raise InvalidSpace("two spaces of one template can't be told apart: pass each once")
        self._starts = [0, *accumulate(len(space) for space in self.spaces)]

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Return a first knob "template", then the knobs of all spaces, merged by name.

        A merged knob has the values of all spaces. It has no condition: each space decides when its
        knob is present.
        """
        merged: dict[str, list[Value]] = {"template": list(self._place)}
        for space in self.spaces:
            for knob in space.knobs:
                merged.setdefault(knob.name, []).extend(knob.values)
        return tuple(Knob(name, tuple(distinct(values))) for name, values in merged.items())

    @property
    def parts(self) -> tuple[range, ...]:
        return tuple(starmap(range, pairwise(self._starts)))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Config:
        place, inner = self._locate(index)
        return self.spaces[place][inner]

    def index(self, config: object) -> int:
        if not isinstance(config, dict):
            raise InvalidConfig(f"a configuration is an object, not {type(config).__name__}")
        name = config.get("template")
        place = self._place.get(name) if isinstance(name, str) else None
        if place is None:
            known = ", ".join(self._place) or "none"
            raise InvalidConfig(
                f"template: {quoted(name)} is not one of this job's templates: {known}"
            )
        return self._starts[place] + self.spaces[place].index(config)

    def neighbours(self, index: int) -> list[int]:
        place, inner = self._locate(index)
        start = self._starts[place]
        return [start + neighbour for neighbour in self.spaces[place].neighbours(inner)]

    def _locate(self, index: int) -> tuple[int, int]:
        """Return the place of an index's space, and the index inside it."""
        whole = operator.index(index)
        if not 0 <= whole < len(self):
            raise IndexError(f"{whole} is not in 0..{len(self) - 1}")
        place = bisect_right(self._starts, whole) - 1
        return place, whole - self._starts[place]

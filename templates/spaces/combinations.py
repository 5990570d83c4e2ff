"""Combinations of a space's first knobs, as arrays of codes that are extended knob by knob."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

from templates.spaces.knob import Config, Knob, Value
from templates.spaces.partial_config import HiddenKnobRead, PartialConfig

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Places = NDArray[np.intp]

FEW = 16
"""A condition is tried on about this many combinations first.

They reveal nearly all knobs that it reads.
"""


@dataclass(frozen=True)
class Combinations:
    """Combinations of ``knobs``, which are a space's first knobs, as ascending codes of `codec`.

    A mask in these methods has a boolean for each of the combinations.
    """

    knobs: tuple[Knob, ...]
    weights: tuple[int, ...]
    codes: Codes

    @classmethod
    def empty(cls) -> Combinations:
        """Return the one combination of no knobs."""
        import numpy as np

        return cls((), (), np.zeros(1, np.int64))

    def present(self, knob: Knob) -> Mask:
        """Return a mask that says whether ``knob``, one of ``knobs`` or the next, is present."""
        import numpy as np

        found = np.ones(len(self.codes), bool)
        for name, allowed in knob.when:
            place = self._place(name)
            parent = self.knobs[place]
            digits = [digit for value in allowed if (digit := parent.digit(value)) is not None]
            found &= self.present(parent) & np.isin(self._digits(place), digits)
        return found

    def extended(self, knob: Knob, weight: int, present: Mask) -> Combinations:
        """Return the combinations with every value of the next knob added if it is present."""
        import numpy as np

        counts = np.where(present, len(knob.values), 1)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        digits = np.arange(len(first)) - first
        codes = np.repeat(self.codes, counts) + digits * weight
        return Combinations((*self.knobs, knob), (*self.weights, weight), codes)

    def kept(self, which: Mask | Places | slice) -> Combinations:
        """Return the combinations that a mask, places or a slice selects."""
        return Combinations(self.knobs, self.weights, self.codes[which])

    def accepted(self, holds: Callable[[Config], bool]) -> Mask:
        """Return a mask that says whether a condition holds.

        The condition is asked once for all combinations that agree on the knobs that it reads. To
        find those knobs, it is first asked about a few combinations with knobs hidden from it: each
        hidden knob that it tries to read is shown the next time.
        """
        import numpy as np

        shown = {0} if self.knobs else set()
        some = self.kept(slice(None, None, max(1, len(self.codes) // FEW)))
        for asked in (some, self):
            while True:
                examples, group = asked._groups(shown)
                try:
                    answers = asked.kept(examples)._answers(holds, sorted(shown))
                    break
                except HiddenKnobRead as hidden:
                    for name in hidden.names:
                        shown |= self._deciding(self._place(name))
        return np.array(answers, bool)[group]

    def _groups(self, shown: Iterable[int]) -> tuple[Places, Places]:
        """Group the combinations by the values of the knobs at these places.

        Return the place of an example of each group, and the group of each combination.
        """
        import numpy as np

        codes = np.zeros_like(self.codes)
        for place in shown:
            codes += self._digits(place) * self.weights[place]
        _, examples, group = np.unique(codes, return_index=True, return_inverse=True)
        return examples, group

    def _answers(self, holds: Callable[[Config], bool], shown: Sequence[int]) -> list[bool]:
        """Return a condition's answers if it sees only the knobs at these places.

        Raise HiddenKnobRead if it reads another one.
        """
        knobs = [self.knobs[place] for place in shown]
        names = [knob.name for knob in knobs]
        hidden = {knob.name for knob in self.knobs}.difference(names)
        # One config for all rows, because that is quicker than a new one for each.
        config: Config = PartialConfig(hidden) if hidden else {}
        if not knobs:
            return [bool(holds(config))] * len(self.codes)
        rows = zip(*map(self._values, shown), strict=True)
        answers = []
        if any(knob.when for knob in knobs):
            masks = zip(*(self.present(knob).tolist() for knob in knobs), strict=True)
            for row, present in zip(rows, masks, strict=True):
                config.clear()
                config.update(compress(zip(names, row, strict=True), present))
                answers.append(bool(holds(config)))
        else:
            for row in rows:
                config.update(zip(names, row, strict=True))
                answers.append(bool(holds(config)))
        return answers

    def _values(self, place: int) -> list[Value]:
        """Return a knob's value in each combination; meaningless if it is absent there."""
        values = self.knobs[place].values
        return [values[digit] for digit in self._digits(place).tolist()]

    def _digits(self, place: int) -> Codes:
        """Return a knob's digit in each combination, 0 if it is absent."""
        return self.codes // self.weights[place] % len(self.knobs[place].values)

    def _place(self, name: str) -> int:
        return next(place for place, knob in enumerate(self.knobs) if knob.name == name)

    def _deciding(self, place: int) -> set[int]:
        """Return the places of a knob and of all knobs that decide whether it is present."""
        return {place}.union(
            *(self._deciding(self._place(name)) for name, _ in self.knobs[place].when)
        )

"""Enumeration of a space: the codes of the combinations of knobs that its constraints accept."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from templates.errors import InvalidSpace, SpaceTooLarge
from templates.spaces.codec import weights
from templates.spaces.combinations import Combinations
from templates.spaces.knob import Config, Knob

MAX_TRIED = 2**22
"""The most partial combinations to try. Any space of 2^20 complete ones needs fewer."""


@dataclass(frozen=True)
class Constraint:
    """A condition between knobs.

    `reads` names the knobs that decide it. If it is empty, any knob may. If it is given, whole
    branches are cut before the remaining knobs are tried.
    """

    name: str
    holds: Callable[[Config], bool]
    reads: tuple[str, ...] = ()

    def depth(self, knobs: Sequence[Knob]) -> int:
        """Return how many of the knobs, in their order, are set when the constraint can be judged.

        Raise InvalidSpace if it reads a knob that is not among them.
        """
        place = {knob.name: depth + 1 for depth, knob in enumerate(knobs)}
        for name in self.reads:
            if name not in place:
                raise InvalidSpace(f"constraint {self.name!r} reads {name!r}, which is no knob")
        return max((place[name] for name in self.reads), default=len(knobs))

    def accepts(self, config: Config) -> bool:
        """Return whether the condition holds. Raise InvalidSpace if it reads a missing knob."""
        try:
            return bool(self.holds(config))
        except KeyError as error:
            raise self.unknown(error) from error

    def unknown(self, knob: KeyError) -> InvalidSpace:
        """Return the error for a knob that the condition reads although it can be absent."""
        return InvalidSpace(
            f"constraint {self.name!r} reads knob {knob}, which not every configuration has"
        )


def valid_codes(knobs: Sequence[Knob], constraints: Sequence[Constraint]) -> array[int]:
    """Return the codes of all combinations that every constraint accepts, ascending.

    Raise SpaceTooLarge, or InvalidSpace if a constraint reads a knob that is absent.
    """
    checks: list[list[Constraint]] = [[] for _ in range(len(knobs) + 1)]
    for constraint in constraints:
        checks[constraint.depth(knobs)].append(constraint)
    found = _accepted(Combinations.empty(), checks[0])
    tried = 0
    for knob, weight, after in zip(knobs, weights(knobs), checks[1:], strict=True):
        present = found.present(knob)
        tried += len(knob.values) * int(present.sum())
        if tried > MAX_TRIED:
            raise SpaceTooLarge(
                f"more than {MAX_TRIED} combinations to try: declare fewer values, or tell the "
                f"constraints which knobs they read (reads=), so that they cut earlier"
            )
        found = _accepted(found.extended(knob, weight, present), after)
    return array("q", found.codes.tobytes())


def _accepted(found: Combinations, constraints: Sequence[Constraint]) -> Combinations:
    # One after the other, because a later constraint may rely on an earlier one.
    for constraint in constraints:
        try:
            found = found.kept(found.accepted(constraint.holds))
        except KeyError as error:
            raise constraint.unknown(error) from error
    return found

"""The valid combinations of knobs, as the codes of `codec`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from templates.errors import InvalidSpace, SpaceTooLarge
from templates.spaces.codec import weights
from templates.spaces.knob import Config, Knob

MAX_TRIED = 2**22
"""The most partial combinations to try. 2^20 complete ones, of any shape, need fewer."""


@dataclass(frozen=True)
class Constraint:
    """A condition between knobs.

    `reads` names the knobs that decide it, empty for "any". With it, whole branches are cut
    before the remaining knobs are tried.
    """

    name: str
    holds: Callable[[Config], bool]
    reads: tuple[str, ...] = ()

    def depth(self, knobs: Sequence[Knob]) -> int:
        """How many of the knobs, in their order, are set when the constraint can be judged.

        Raises InvalidSpace if it reads a knob that is not among them.
        """
        place = {knob.name: depth + 1 for depth, knob in enumerate(knobs)}
        for name in self.reads:
            if name not in place:
                raise InvalidSpace(f"constraint {self.name!r} reads {name!r}, which is no knob")
        return max((place[name] for name in self.reads), default=len(knobs))


def valid_codes(knobs: Sequence[Knob], constraints: Sequence[Constraint]) -> array[int]:
    """The codes of all combinations that every constraint accepts, ascending.

    Raises SpaceTooLarge, and InvalidSpace if a constraint reads a knob that is not there.
    """
    worth = weights(knobs)
    last = len(knobs)
    checks: list[list[Callable[[Config], bool]]] = [[] for _ in range(last + 1)]
    for constraint in constraints:
        checks[constraint.depth(knobs)].append(constraint.holds)
    found = array("q")
    config: Config = {}
    tried = 0

    def descend(depth: int, code: int) -> None:
        nonlocal tried
        if depth == last:
            found.append(code)
            return
        knob = knobs[depth]
        after = checks[depth + 1]
        if not knob.present(config):
            if all(holds(config) for holds in after):
                descend(depth + 1, code)
            return
        tried += len(knob.values)
        if tried > MAX_TRIED:
            raise SpaceTooLarge(
                f"more than {MAX_TRIED} combinations to try: declare fewer values, or tell the "
                f"constraints which knobs they read (reads=), so that they cut earlier"
            )
        name, step, leaf = knob.name, worth[depth], depth + 1 == last
        for value in knob.values:
            config[name] = value
            for holds in after:
                if not holds(config):
                    break
            else:
                if leaf:
                    found.append(code)
                else:
                    descend(depth + 1, code)
            code += step
        del config[name]

    try:
        if all(holds(config) for holds in checks[0]):
            descend(0, 0)
    except KeyError as error:
        raise InvalidSpace(
            f"a constraint reads knob {error}, which is not present in {config}"
        ) from error
    return found

"""The comparison round: all that is compared takes turns, until the first two are told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tuner.compare.stage import EMPTY, KERNEL, Contestant, Entered, cold, sample
from tuner.device.cuda_facts import clocks
from tuner.errors import ChildFailed
from tuner.measure.clock import Sample, Summary, summarise
from tuner.measure.quiet import Others, noise
from tuner.measure.trial import RunOrder
from tuner.process.child import Child

TURNS, FEWEST_TURNS = 20, 3
"""Turns of a round, and the fewest that a slow contestant takes."""
SECONDS = 0.5
"""What a contestant's samples may take; a slower one sits some turns out."""
FURTHER_TURNS = 10
FURTHER_SECONDS = 4.0
"""For the turns beyond the first twenty, if the first two are not yet told apart."""
SAME = 0.01
"""Two whose times differ by less need not be told apart."""
ROUND_SECONDS = 900.0
"""What entering, or all samples of a process, may take."""


@dataclass(frozen=True)
class Entry:
    """What was measured of one contestant. ``timing`` holds ``warm`` and, for a library, perhaps
    ``cold`` summaries; ``level`` says whether the time is that of the kernel or of the call."""

    name: str
    timing: dict[str, Summary]
    max_error: float | None
    level: str = KERNEL

    @property
    def time_us(self) -> float:
        """Warm median."""
        return float(self.timing["warm"]["median_us"])


@dataclass(frozen=True)
class Comparison:
    """The table of a round. ``dropped`` are those that failed, with the reason; ``load`` is how
    many processors other programs kept busy meanwhile."""

    entries: dict[str, Entry]
    dropped: dict[str, str]
    clocks: dict[str, Any] = field(default_factory=dict)
    load: float = 0.0

    @property
    def empty_us(self) -> float:
        """The cost of a launch, µs."""
        return self.entries[EMPTY].time_us

    def with_cold(self, cold: dict[str, Summary]) -> Comparison:
        """The same, with cold summaries beside the warm ones."""
        entries = {
            name: replace(entry, timing=entry.timing | {"cold": cold[name]})
            for name, entry in self.entries.items()
            if name in cold
        }
        return replace(self, entries=self.entries | entries)

    def noise(self, name: str) -> dict[str, Any]:
        """How quiet it was while the one of that name was measured."""
        warm = self.entries[name].timing["warm"]
        probe = self.entries[EMPTY].timing["warm"] if EMPTY in self.entries else None
        return noise(probe, self.load, warm)


class Stage:
    """A process in which some of the contestants are ready."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.contestants: dict[str, Contestant] = {}
        self.dropped: dict[str, str] = {}

    def enter(self, enter: Callable[..., Entered], *arguments: Any) -> None:
        """Have them made ready by a function of :mod:`tuner.compare.stage`. Raises ChildFailed."""
        found = self._child.call(enter, *arguments, timeout=ROUND_SECONDS)
        self.contestants |= found.contestants
        self.dropped |= found.dropped

    def enter_or_drop(self, name: str, enter: Callable[..., Entered], *arguments: Any) -> None:
        """The same; a process that fails is a reason beside the name, and no more."""
        try:
            self.enter(enter, *arguments)
        except ChildFailed as error:
            self.contestants.clear()
            self.dropped[name] = f"left out: {error}"

    def sample(self, names: Sequence[str]) -> list[Sample]:
        """A sample of each. Raises ChildFailed."""
        return self._child.call(sample, list(names), timeout=ROUND_SECONDS)

    def cold(self, order: RunOrder, names: Sequence[str]) -> dict[str, Summary]:
        """Cold summaries of libraries. Raises ChildFailed."""
        return self._child.call(cold, order, list(names), timeout=ROUND_SECONDS)

    def clocks(self) -> dict[str, Any]:
        """The GPU's clocks, now. Raises ChildFailed."""
        return self._child.call(clocks, timeout=ROUND_SECONDS)


def compare(stages: Sequence[Stage], rivals: Collection[str] = ()) -> Comparison:
    """Take turns. ``rivals`` are those of whom the fastest is looked for: as long as it is not
    told apart from the second, and seconds are left, there are further turns.

    Raises ChildFailed if a process ends.
    """
    others = Others()
    ready = {name: c for stage in stages for name, c in stage.contestants.items()}
    samples: dict[str, dict[int, Sample]] = {name: {} for name in ready}
    wanted = {name: _turns(contestant) for name, contestant in ready.items()}
    _take(stages, samples, wanted, range(TURNS + 1))
    left, turn = FURTHER_SECONDS, TURNS + 1
    seconds = FURTHER_TURNS * sum(c.seconds for c in ready.values())
    while not _told_apart(samples, rivals) and left > 0:
        _take(stages, samples, wanted, range(turn, turn + FURTHER_TURNS))
        left, turn = left - max(seconds, 1e-3), turn + FURTHER_TURNS
    entries = {
        name: Entry(
            name,
            {"warm": summarise(list(taken.values()), ready[name].calls)},
            ready[name].max_error,
            ready[name].level,
        )
        for name, taken in samples.items()
    }
    dropped = {name: why for stage in stages for name, why in stage.dropped.items()}
    return Comparison(entries, dropped, load=others.load())


def _turns(contestant: Contestant) -> int:
    """Of the twenty, how many a contestant takes."""
    most = TURNS if contestant.most is None else contestant.most
    least = min(FEWEST_TURNS, most)
    return max(least, min(most, int(SECONDS / max(contestant.seconds, 1e-9))))


def _take(
    stages: Sequence[Stage],
    samples: dict[str, dict[int, Sample]],
    wanted: dict[str, int],
    turns: range,
) -> None:
    """Into ``samples``, by turn. A single process is asked for all turns at once: a GPU would idle
    between them."""
    blocks = [turns] if len(stages) == 1 else [range(turn, turn + 1) for turn in turns]
    for block in blocks:
        for stage in stages:
            asked = [
                (name, turn)
                for turn in block
                for name in stage.contestants
                if _is_in(turn, wanted[name])
            ]
            if not asked:
                continue
            found = stage.sample([name for name, _ in asked])
            for (name, turn), one in zip(asked, found, strict=True):
                samples[name][turn] = one


def _is_in(turn: int, wanted: int) -> bool:
    """Whether one that takes so many of twenty turns takes this one; they are spread evenly. The
    first is dropped later."""
    if turn == 0:
        return wanted > 1
    return turn * wanted // TURNS > (turn - 1) * wanted // TURNS


def _told_apart(samples: dict[str, dict[int, Sample]], rivals: Collection[str]) -> bool:
    """Whether the faster of the first two is so beyond doubt: the 95 % interval of the median of
    their ratio, turn by turn, leaves 1 out, or is as good as 1. By order statistics (Conover,
    "Practical Nonparametric Statistics", 3.2), the normal approximation."""
    times = {
        name: {turn: s.seconds for turn, s in samples[name].items() if turn > 0}
        for name in rivals
        if len(samples.get(name, {})) > 1
    }
    if len(times) < 2:
        return True
    first, second = sorted(times.values(), key=lambda taken: float(np.median([*taken.values()])))[
        :2
    ]
    ratios = sorted(second[turn] / first[turn] for turn in first.keys() & second.keys())
    count = len(ratios)
    margin = 1.96 * math.sqrt(count) / 2
    low = ratios[max(0, math.floor(count / 2 - margin))] if count else 0.0
    high = ratios[min(count - 1, math.ceil(count / 2 + margin))] if count else math.inf
    return low > 1 or (low > 1 - SAME and high < 1 + SAME)

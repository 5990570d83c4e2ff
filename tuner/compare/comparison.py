"""The comparison round: subjects are timed in turns until it is settled which is fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tuner.compare.stage import EMPTY, KERNEL, Prepared, Subject, cold, sample
from tuner.device.cuda_facts import clocks
from tuner.errors import ChildFailed
from tuner.measure.clock import Sample, Summary, summarise
from tuner.measure.noise import OtherLoad, noise
from tuner.measure.trial import RunOrder
from tuner.process.child import Child

TURNS, FEWEST_TURNS = 20, 3
"""Turns of a round, and the fewest that a slow subject takes."""
FIRST_TURNS, FAR = 6, 1.5
"""Some subjects drop out after six turns. The interval of a ratio then spans all six turns. So a
finalist drops out if it was slower than the fastest finalist in each of them, and a peer if it took
more than 1.5 times as long as our fastest library in each of them."""
ROUGH_TURNS = 4
"""Turns of a rough round, which is not meant to settle anything."""
SECONDS = 0.5
"""Seconds that a subject's samples may take. A slower subject sits out some turns."""
FURTHER_TURNS = COLD_SAMPLES = 10
"""Turns that are added at a time while a round is not settled; and samples of a cold time."""
ROUGH_COLD_SAMPLES = 0
"""Samples of a cold time in a rough round. Neither number of cold samples includes the first one,
which is dropped if there are others."""
SETTLE_SECONDS = 4.0
"""Seconds for the turns after the first twenty. A round takes them while it is not settled."""
SAME = 0.01
"""A smaller relative difference between two times does not matter."""
ROUND_SECONDS = 900.0
"""Limit of each call of a round's process, in which subjects are prepared or samples are taken."""


@dataclass(frozen=True)
class Entry:
    """The result of one subject of a round.

    ``timing`` has a ``warm`` summary and, for some libraries, a ``cold`` one. ``max_error`` is the
    subject's largest error; None for the empty program. ``level`` says whether the time is that of
    the kernel or of the call.
    """

    name: str
    timing: dict[str, Summary]
    max_error: float | None
    level: str = KERNEL

    @property
    def time_us(self) -> float:
        """The warm median in µs."""
        return float(self.timing["warm"]["median_us"])

    @property
    def finite_error(self) -> float | None:
        """The largest error, or None if it is NaN or infinite, which JSON can't express."""
        finite = self.max_error is not None and math.isfinite(self.max_error)
        return self.max_error if finite else None

    def fault(self, allowed: float) -> str | None:
        """Return a note if the output was wrong: peers are timed in any case."""
        if self.max_error is None or self.max_error <= allowed:
            return None
        return f"wrong: error {self.max_error:.3g}, allowed {allowed:.3g}"


@dataclass(frozen=True)
class Comparison:
    """The results of a round.

    ``entries`` has the results of the subjects that were timed, by name. ``dropped`` has the
    reasons why others were not timed. ``clocks`` are the GPU's clocks after the round, empty for a
    CPU. ``load`` is how many processors other programs kept busy during the round. ``overtaken``
    are the finalists that dropped out because another one was faster in each of the first turns.
    """

    entries: dict[str, Entry]
    dropped: dict[str, str]
    clocks: dict[str, Any] = field(default_factory=dict)
    load: float = 0.0
    overtaken: list[str] = field(default_factory=list)

    @property
    def empty_us(self) -> float:
        """The time of the empty program in µs, which is the cost of a launch."""
        return self.entries[EMPTY].time_us

    def ranked(self, finalists: Collection[str]) -> list[Entry]:
        """Return the entries of the ``finalists`` that were timed, fastest first.

        Overtaken finalists come last. They took only the first turns, which may have been quicker
        than the later ones.
        """
        timed = [self.entries[name] for name in finalists if name in self.entries]
        return sorted(timed, key=lambda entry: (entry.name in self.overtaken, entry.time_us))

    def with_cold(self, cold: dict[str, Summary]) -> Comparison:
        """Return the same results, with these cold summaries beside the warm ones."""
        entries = {
            name: replace(entry, timing=entry.timing | {"cold": cold[name]})
            for name, entry in self.entries.items()
            if name in cold
        }
        return replace(self, entries=self.entries | entries)

    def noise(self, name: str) -> dict[str, Any]:
        """Return how quiet the machine was while that subject was measured: :func:`noise.noise`."""
        warm = self.entries[name].timing["warm"]
        probe = self.entries[EMPTY].timing["warm"] if EMPTY in self.entries else None
        return noise(probe, self.load, warm)


class Stage:
    """A child process in which some of the subjects are ready to be timed, as its parent sees
    it."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.subjects: dict[str, Subject] = {}
        self.dropped: dict[str, str] = {}

    def prepare(self, prepare: Callable[..., Prepared], *arguments: Any) -> None:
        """Make subjects ready in the process with ``prepare``, a function of
        :mod:`tuner.compare.stage`.

        Raises ChildFailed.
        """
        found = self._child.call(prepare, *arguments, timeout=ROUND_SECONDS)
        self.subjects |= found.subjects
        self.dropped |= found.dropped

    def prepare_or_drop(self, name: str, prepare: Callable[..., Prepared], *arguments: Any) -> None:
        """Make subjects ready as :meth:`prepare` does; if the process fails, drop ``name``
        instead."""
        try:
            self.prepare(prepare, *arguments)
        except ChildFailed as error:
            self.subjects.clear()
            self.dropped[name] = f"left out: {error}"

    def sample(self, names: Sequence[str]) -> list[Sample]:
        """Take a sample of each of these subjects, one after the other. Raises ChildFailed."""
        return self._child.call(sample, list(names), timeout=ROUND_SECONDS)

    def cold(
        self, order: RunOrder, names: Sequence[str], settle_seconds: float = SETTLE_SECONDS
    ) -> dict[str, Summary]:
        """Return cold summaries of libraries, rough ones if ``settle_seconds`` is 0.

        Raises ChildFailed.
        """
        count = COLD_SAMPLES if settle_seconds > 0 else ROUGH_COLD_SAMPLES
        return self._child.call(cold, order, list(names), count, timeout=ROUND_SECONDS)

    def clocks(self) -> dict[str, Any]:
        """Return the GPU's present clocks, as :func:`tuner.device.cuda_facts.clocks` does.

        Raises ChildFailed.
        """
        return self._child.call(clocks, timeout=ROUND_SECONDS)


def compare(
    stages: Sequence[Stage],
    finalists: Collection[str] = (),
    settle_seconds: float = SETTLE_SECONDS,
) -> Comparison:
    """Time the subjects of all stages in turns.

    After six turns, finalists that can't be the fastest and peers that are far slower than ours
    drop out. After twenty turns the round goes on, for up to ``settle_seconds``, until it is
    settled which of the ``finalists`` is fastest. Only finalists that may still be the fastest take
    these turns. If ``settle_seconds`` is 0, the round is rough and has four turns.

    Raises ChildFailed if a process ends.
    """
    others = OtherLoad()
    ready = {name: c for stage in stages for name, c in stage.subjects.items()}
    samples: dict[str, dict[int, Sample]] = {name: {} for name in ready}
    turns = TURNS if settle_seconds > 0 else ROUGH_TURNS
    shares = {name: (_turns(subject, turns), turns) for name, subject in ready.items()}
    first = min(FIRST_TURNS, turns)
    _take(stages, samples, shares, range(first + 1))
    overtaken = _behind(samples, finalists, finalists, 1.0)
    ours = [name for name, subject in ready.items() if not subject.is_peer and name != EMPTY]
    far = _behind(samples, ready.keys() - {EMPTY, *ours}, ours, FAR)
    lasting = {name: share for name, share in shares.items() if name not in {*overtaken, *far}}
    _take(stages, samples, lasting, range(first + 1, turns + 1))
    contenders = [name for name in finalists if name not in overtaken]
    left, turn = settle_seconds, turns + 1
    while not _is_settled(samples, contenders) and left > 0:
        close = {name: shares[name] for name in _contenders(samples, contenders)}
        _take(stages, samples, close, range(turn, turn + FURTHER_TURNS))
        seconds = FURTHER_TURNS * sum(ready[name].seconds for name in close)
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
    return Comparison(entries, dropped, load=others.load(), overtaken=overtaken)


def _turns(subject: Subject, turns: int) -> int:
    """Return how many of ``turns`` turns a subject takes: as many as fit :data:`SECONDS`.

    A slow one still takes :data:`FEWEST_TURNS`, unless it wants fewer.
    """
    most = turns if subject.most is None else min(turns, subject.most)
    least = min(FEWEST_TURNS, most)
    return max(least, min(most, int(SECONDS / max(subject.seconds, 1e-9))))


def _take(
    stages: Sequence[Stage],
    samples: dict[str, dict[int, Sample]],
    shares: dict[str, tuple[int, int]],
    turns: range,
) -> None:
    """Take these turns, and add the samples to ``samples`` by subject and turn.

    ``shares`` says how many of how many turns each subject takes. Subjects without a share do not
    take part. If all others are in one process, one request asks it for all turns, because a GPU
    would idle between requests.
    """
    taking = [stage for stage in stages if stage.subjects.keys() & shares.keys()]
    blocks = [turns] if len(taking) == 1 else [range(turn, turn + 1) for turn in turns]
    for block in blocks:
        for stage in taking:
            asked = [
                (name, turn)
                for turn in block
                for name in stage.subjects
                if name in shares and _is_in(turn, *shares[name])
            ]
            if not asked:
                continue
            found = stage.sample([name for name, _ in asked])
            for (name, turn), one in zip(asked, found, strict=True):
                samples[name][turn] = one


def _is_in(turn: int, wanted: int, turns: int) -> bool:
    """Return whether a subject that takes ``wanted`` of ``turns`` turns takes part in this one.

    Its turns are spread evenly. Turn 0 is an extra turn, and its samples are dropped later.
    """
    if turn == 0:
        return wanted > 1
    return turn * wanted // turns > (turn - 1) * wanted // turns


def _is_settled(samples: dict[str, dict[int, Sample]], finalists: Collection[str]) -> bool:
    """Return whether it is settled which finalist is fastest.

    It is settled if the interval of the ratio of the two fastest excludes 1, or lies within SAME
    of 1.
    """
    ranked = _ranked(samples, finalists)
    if len(ranked) < 2:
        return True
    low, high = _ratio(ranked[0][1], ranked[1][1])
    return low > 1 or (low > 1 - SAME and high < 1 + SAME)


def _contenders(samples: dict[str, dict[int, Sample]], finalists: Collection[str]) -> list[str]:
    """Return the fastest finalist, and the other finalists whose ratio to it may be 1."""
    (fastest, first), *others = _ranked(samples, finalists)
    return [fastest, *[name for name, times in others if _ratio(first, times)[0] <= 1]]


def _behind(
    samples: dict[str, dict[int, Sample]],
    names: Collection[str],
    others: Collection[str],
    times_as_slow: float,
) -> list[str]:
    """Return which of ``names`` are certainly slower than the fastest of ``others``.

    A subject is certainly slower if the interval of its ratio lies above ``times_as_slow``.
    """
    fastest = _ranked(samples, others)[:1]
    return [
        name
        for name, times in _ranked(samples, names)
        for _, first in fastest
        if len(times) >= FEWEST_TURNS and _ratio(first, times)[0] > times_as_slow
    ]


def _ranked(
    samples: dict[str, dict[int, Sample]], names: Collection[str]
) -> list[tuple[str, dict[int, float]]]:
    """Return the subjects among ``names`` that were timed, with their seconds by turn.

    The one with the fastest median comes first. Turn 0 does not count.
    """
    times = {
        name: {turn: s.seconds for turn, s in samples[name].items() if turn > 0}
        for name in names
        if len(samples.get(name, {})) > 1
    }
    return sorted(times.items(), key=lambda each: float(np.median([*each[1].values()])))


def _ratio(first: dict[int, float], second: dict[int, float]) -> tuple[float, float]:
    """Return the 95 % interval of the median ratio of the second's times to the first's.

    Times of the same turn are compared. The interval is that of order statistics (Conover,
    "Practical Nonparametric Statistics", 3.2), in the normal approximation.
    """
    ratios = sorted(second[turn] / first[turn] for turn in first.keys() & second.keys())
    count = len(ratios)
    if not count:
        return 0.0, math.inf
    margin = 1.96 * math.sqrt(count) / 2
    return (
        ratios[max(0, math.floor(count / 2 - margin))],
        ratios[min(count - 1, math.ceil(count / 2 + margin))],
    )

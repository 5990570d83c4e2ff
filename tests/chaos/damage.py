"""What a storm did, its damage, and which damage counts as harm."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

ORPHAN_SECONDS = 35.0
"""Longest time that a killed worker's job may wait: its lease of 30 s, and 5 s until a claim."""
HARMS = {
    "unended": "jobs that never ended",
    "lost": "confirmed and not there",
    "doubled": "there twice",
    "stale": "written by an attempt after a later one had begun",
    "early": "jobs taken before their lease ran out",
    "without_best": "succeeded jobs without a best",
    "crashed": "errors that are none of the storage's, or none that a client may see",
    "gaps": "events of a stream that were left out or sent twice",
    "orphans": "processes that outlived their worker",
    "left": "temporary files of killed workers",
}
"""Counts that must be 0, with their meaning."""


@dataclass
class Damage:
    """What a storm did and what came of it.

    ``blows`` counts the blows by name, ``done`` other actions, ``states`` the jobs by state.
    ``refused`` counts refused writes and ``reasons`` says why they were. ``inconsistent`` has the
    findings of ``tuner db check`` and whatever else is wrong, in words. The other counts are
    explained in HARMS.
    """

    blows: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    trials: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    longest_orphan_seconds: float = 0.0
    unended: int = 0
    lost: int = 0
    doubled: int = 0
    stale: int = 0
    early: int = 0
    without_best: int = 0
    crashed: int = 0
    gaps: int = 0
    orphans: int = 0
    left: int = 0
    inconsistent: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def harm(damage: Damage, asked: dict[str, int]) -> list[str]:
    """Return a sentence for each harm.

    A storm that did not strike all blows that were ``asked`` for proves nothing, so that is harm,
    too. So are a disk that was never full and a storm without trials.
    """
    found = [
        f"{name}: {count} ({meaning})"
        for name, meaning in HARMS.items()
        if (count := getattr(damage, name))
    ]
    found += [f"inconsistent: {finding}" for finding in damage.inconsistent]
    if damage.longest_orphan_seconds > ORPHAN_SECONDS:
        found.append(
            f"an orphan was taken up after {damage.longest_orphan_seconds:.1f} s, "
            f"more than {ORPHAN_SECONDS:g} s"
        )
    if damage.blows != asked:
        found.append(f"asked for {asked}, but done was {damage.blows}")
    if asked.get("filling") and damage.refused == 0:
        found.append("no write was refused: the disk was never full")
    if damage.trials == 0:
        found.append("no trial was stored: nothing was tried")
    return found

"""Launches that let the next one begin before their blocks have ended, if a knob says so.

Each block that does so takes time, and blocks of the next launch are placed wherever a unit has
room for them. If units have room for blocks of two launches, those that have fewest of the first
get most of the next, which then take longest. Depthwise layers and short sums of conv1d gain
nevertheless, for some configurations: their knob is ``next_launch``. Blocks of conv1d's transforms
hold so much shared memory that a unit has room for few: their knob ``held_kib`` is how many KiB. 0
means that a block holds what it uses, and that the next launch is not let begin.
"""

from __future__ import annotations

from templates.limits import DeviceLimits
from templates.template import Config

MOST_ROOM = 2  # the most blocks for which a unit has room if they hold memory


def held_kib(limits: DeviceLimits) -> list[int]:
    """Return the values of ``held_kib``: 0, and if launches can begin early, those with which a
    unit has room for one block, and for two."""
    kib, rooms = limits.shared_memory // 1024, range(1, MOST_ROOM + 1)
    return [0, *(kib // (room + 1) + 1 for room in rooms if limits.begins_launches_early)]


def next_launches(limits: DeviceLimits) -> list[str]:
    """Return the values of the knob ``next_launch``, the usual one first: ``early`` if the next
    launch can begin before blocks have ended, and ``late``."""
    return ["early", "late"] if limits.begins_launches_early else ["late"]


def begins_next(config: Config) -> bool:
    """Return whether a launch lets the next one begin, as ``next_launch.cu`` does."""
    return bool(config.get("held_kib", 0)) or config.get("next_launch") == "early"


def held_words(config: Config, words: int) -> int:
    """Return the 32-bit words of shared memory that a block holds, of which it uses ``words``."""
    return max(words, 256 * int(config.get("held_kib", 0)))

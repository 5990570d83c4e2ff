"""Launches that let the next one begin before their blocks have ended, if a knob says so.

This takes each block some time, and blocks of the next launch are placed wherever a unit has room.
If units have room for blocks of both launches, the units with the fewest blocks of the first get
the most blocks of the next, and these blocks then take longest. Some configurations of depthwise
layers and of conv1d's short sums are faster nevertheless: their knob is ``next_launch``. Blocks of
conv1d's transforms hold so much shared memory that a unit has room for only a few. Their knob
``held_kib`` is the size of that memory in KiB. With 0 a block holds only what it uses, and does not
let the next launch begin.
"""

from __future__ import annotations

from templates.limits import DeviceLimits
from templates.template import Config

MOST_ROOM = 2  # the most blocks for which a unit has room if they hold memory


def held_kib(limits: DeviceLimits) -> list[int]:
    """Return the values of ``held_kib``: 0 and, if launches can begin early, the sizes with which a
    unit has room for one block and for two."""
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

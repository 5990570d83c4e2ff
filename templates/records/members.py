"""JSON objects whose members must not repeat.

A parser keeps one of two members of the same name, and their author may have meant the other.
"""

from __future__ import annotations

from collections import Counter
from typing import Any


class DuplicateMember(ValueError):
    """An object has a member twice. Give the member that the message names once."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:60]!a} is given more than once; give it once")


def unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members as a dict; for ``object_pairs_hook`` of :func:`json.loads`.

    Raise DuplicateMember if a name repeats.
    """
    found = dict(members)
    if len(found) < len(members):
        [(name, _)] = Counter(name for name, _ in members).most_common(1)
        raise DuplicateMember(name)
    return found

"""The members of JSON's objects, each of which is to be there once: of two of the same name a
parser takes one, and whoever wrote them may have meant the other."""

from __future__ import annotations

from collections import Counter
from typing import Any


class GivenTwice(ValueError):
    """Give the member that the message names once."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:60]!a} is given more than once; give it once")
        self.name = name


def each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """``object_pairs_hook`` of :func:`json.loads`. Raises GivenTwice."""
    found = dict(members)
    if len(found) < len(members):
        [(name, _)] = Counter(name for name, _ in members).most_common(1)
        raise GivenTwice(name)
    return found

"""Hypothesis strategies for hostile or damaged input.

They draw JSON values, documents that were valid until something in them was changed, and bytes as
a bad disk would return them.
"""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]

HUGE = (10**18, 2**63, -(2**63) - 1, 10**400, -(10**400))
NUMBERS = st.sampled_from([*HUGE, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324, -0.0])
TEXTS = st.sampled_from(
    ["", "\0", "\ud800", "x\udfff", "\u202e", "é" * 40, "x" * 100_000, "../../etc/passwd",
     "'; DROP TABLE jobs; --", "{{7*7}}", "%s%n", "__class__", "NaN", "1e999", "\x80\x04\x95"]
)  # fmt: skip


def nested(depth: int, inner: Any = 1) -> Any:
    """Return ``inner`` wrapped in ``depth`` lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | NUMBERS | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=12) | TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
) | st.integers(1, 400).map(nested)


def places(document: Any, here: Path = ()) -> Iterator[Path]:
    """Yield the path of keys and indexes to each value of a document; that of the whole is ()."""
    yield here
    steps: Any = ()
    if isinstance(document, dict):
        steps = document.items()
    elif isinstance(document, list):
        steps = enumerate(document)
    for step, inner in steps:
        yield from places(inner, (*here, step))


def put(document: Any, place: Path, value: Any) -> Any:
    """Return a copy of the document with ``value`` at ``place``; the document stays as it is."""
    if not place:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return changed


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """Draw the document with one to three values replaced, removed, renamed or added."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(places(document))))
        how = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        inner = document
        for step in place:
            inner = inner[step]
        if how == "add" and isinstance(inner, dict):
            document = put(document, place, inner | {draw(st.text(max_size=12)): draw(VALUES)})
        elif how != "replace" and place and isinstance(place[-1], str):
            owner = document
            for step in place[:-1]:
                owner = owner[step]
            rest = {name: each for name, each in owner.items() if name != place[-1]}
            if how == "rename":
                rest |= {draw(TEXTS | st.text(max_size=12)): inner}
            document = put(document, place[:-1], rest)
        else:
            document = put(document, place, draw(VALUES))
    return document


def line(value: Any) -> bytes:
    """Return the value as JSON. NaN and infinities are written too, though JSON does not have them.

    Lone surrogates are escaped.
    """
    return json.dumps(value).encode()


@st.composite
def twice_named(draw: st.DrawFn, document: Any) -> bytes:
    """Draw the JSON of an object in which one name, at any depth, stands twice."""
    owners = [place for place in places(document) if place and isinstance(place[-1], str)]
    name = draw(st.sampled_from(owners))[-1]
    written = json.dumps(document)
    pair = f'"{name}": '
    return written.replace(pair, f"{pair}{json.dumps(draw(SCALARS))}, {pair}", 1).encode()


@st.composite
def mangled(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw ``content`` with bytes cut off, overwritten, inserted or doubled, as by a bad disk."""
    start = draw(st.integers(0, len(content)))
    stop = min(len(content), start + draw(st.integers(0, 64)))
    between = draw(
        st.binary(max_size=16)
        | st.just(content[start:stop] * 2)
        | st.sampled_from([b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"[" * 3000])
    )
    return content[:start] + between + (content[stop:] if draw(st.booleans()) else b"")


def logs(lines: list[Any], others: list[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy for logs in which something is wrong.

    They are made of ``lines``, which can be imported, and of ``others``, logs of other tools. An
    undamaged log of another tool may be drawn too.
    """
    good = b"\n".join(map(line, lines))
    one = st.sampled_from(lines)
    wrong: Callable[[Any], st.SearchStrategy[bytes]] = lambda each: (  # noqa: E731
        mutated(each).map(line) | twice_named(each)
    )
    bad = one.flatmap(wrong) | st.binary(max_size=200) | VALUES.map(line)
    among = st.tuples(bad, st.booleans()).map(
        lambda drawn: b"\n".join([good, drawn[0]] if drawn[1] else [drawn[0], good])
    )
    whole = st.sampled_from([good, *others]).flatmap(mangled)
    return st.one_of(bad, among, whole, st.sampled_from(others), st.binary(max_size=2000))

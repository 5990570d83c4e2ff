"""Conditional and ranged requests (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re

from api.problems.problems import Problem

_RANGE = re.compile(r"bytes=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE)


def weak_etag(digest: str) -> str:
    """Return the ETag of an answer that may be compressed: the same content, not the same bytes."""
    return f'W/"{digest}"'


def matches(if_none_match: str | None, etag: str) -> bool:
    """Return whether the caller already has this ``etag``, by RFC 9110's weak comparison."""
    if if_none_match is None:
        return False
    sent = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in sent or etag.removeprefix("W/") in sent


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte of a range, and the byte after its last.

    Return None if all ``size`` bytes are to be sent: there is no range, there are several, or it is
    malformed. Raise Problem if the range lies outside the artifact."""
    found = _RANGE.fullmatch(header or "")
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first == "":
        start, stop = max(size - int(last), 0), size
    else:
        start = int(first)
        stop = min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise Problem(
            "range-not-satisfiable",
            f"the artifact has {size} bytes; ask for a range within 0-{size - 1}",
            headers={"Content-Range": f"bytes */{size}"},
        )
    return start, stop

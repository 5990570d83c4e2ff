"""Pages by key: a cursor names the last row seen, so rows that come in between shift nothing."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from db.sql.errors import BadCursor

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    items: list[T]
    next_cursor: str | None  # None on the last page


def write_cursor(listing: str, key: int) -> str:
    text = json.dumps([listing, key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(listing: str, cursor: str) -> int:
    """The key of the last row seen; raises BadCursor for anything this listing did not write."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise BadCursor from None
    if name != listing or type(key) is not int or not 0 <= key < 2**63:
        raise BadCursor
    return key


def page(listing: str, limit: int, items: Sequence[T], keys: Sequence[int]) -> Page[T]:
    """A page of at most `limit` from the limit + 1 rows that were asked for."""
    more = len(items) > limit
    return Page(list(items[:limit]), write_cursor(listing, keys[limit - 1]) if more else None)

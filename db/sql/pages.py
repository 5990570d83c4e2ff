"""Pages of a list. A cursor names the last row of a page, so that new rows do not shift others."""

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
    """Part of a list, and the cursor with which the next part can be read."""

    items: list[T]
    next_cursor: str | None  # None on the last page


def write_cursor(listing: str, key: int) -> str:
    """Return a cursor of the list named ``listing``. Its page begins after the row ``key``."""
    text = json.dumps([listing, key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(listing: str, cursor: str) -> int:
    """Return the key of the last row seen. Raises BadCursor for any text that `write_cursor` did
    not return for this list."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise BadCursor from None
    if name != listing or type(key) is not int or not 0 <= key < 2**63:
        raise BadCursor
    return key


def page(listing: str, limit: int, items: Sequence[T], keys: Sequence[int]) -> Page[T]:
    """Return a page of the first `limit` items. `items` are at most `limit` + 1; the last one only
    shows that there is another page. `keys` are the items' keys, for the cursor."""
    more = len(items) > limit
    return Page(list(items[:limit]), write_cursor(listing, keys[limit - 1]) if more else None)

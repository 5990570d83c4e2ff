"""Dictionaries by shape, which are kept small although a program may call with ever new shapes."""

from __future__ import annotations

from typing import Any

MOST = 1024


def put(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Set an entry. A dictionary that is full begins anew."""
    if len(kept) >= MOST and key not in kept:
        kept.clear()
    kept[key] = value

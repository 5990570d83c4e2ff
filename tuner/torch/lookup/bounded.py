"""Dictionaries by shape, which stay small even if a program calls with ever new shapes."""

from __future__ import annotations

from typing import Any

MOST = 1024


def put(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Set an entry. A full dictionary is cleared first."""
    if len(kept) >= MOST and key not in kept:
        kept.clear()
    kept[key] = value

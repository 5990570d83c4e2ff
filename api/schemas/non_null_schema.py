"""The JSON Schema of a value that may be null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def non_null_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property's schema for when its value is not null."""
    options = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return {**schema, **(options[0] if options else {})}

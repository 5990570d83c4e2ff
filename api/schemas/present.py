"""A property of a JSON Schema whose value may be absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def present(schema: Mapping[str, Any]) -> dict[str, Any]:
    """That of a value which may be absent, when it is there."""
    options = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return {**schema, **(options[0] if options else {})}

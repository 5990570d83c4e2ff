"""The files beside the pages: styles, scripts, what is from elsewhere under ``vendor``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:16]


@cache
def assets() -> dict[str, Asset]:
    """By their path under ``static``; nothing else can be asked for."""
    return {
        path.relative_to(ROOT).as_posix(): Asset(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(ROOT.rglob("*"))
        if path.suffix in _TYPES
    }


def url(name: str) -> str:
    """Where a page finds it; changes with the bytes, so that it may be cached for ever."""
    return f"/static/{name}?v={assets()[name].digest}"

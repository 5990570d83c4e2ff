"""The static files of the pages: styles, scripts, and others' files under ``vendor``."""

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
    """The files by their path under ``static``. Nothing else is served."""
    return {
        path.relative_to(ROOT).as_posix(): Asset(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(ROOT.rglob("*"))
        if path.suffix in _TYPES
    }


def url(name: str) -> str:
    """The URL of a file. It changes with the bytes, so that the file may be cached for ever."""
    return f"/static/{name}?v={assets()[name].digest}"

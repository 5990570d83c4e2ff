"""Static files of the pages: styles, scripts, and third parties' files under ``vendor``."""

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
    """A static file."""

    content: bytes
    media_type: str

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:16]


@cache
def assets() -> dict[str, Asset]:
    """Return the files by their path under ``static``. Nothing else is served."""
    return {
        path.relative_to(ROOT).as_posix(): Asset(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(ROOT.rglob("*"))
        if path.suffix in _TYPES
    }


def url(name: str) -> str:
    """Return a file's URL, which changes with its bytes, so that it may be cached for ever."""
    return f"/static/{name}?v={assets()[name].digest}"

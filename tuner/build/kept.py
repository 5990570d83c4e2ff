"""What was compiled before, in a folder: libraries with their sources, by all that they come from.

The programs of a job's last round, of a search that is repeated or of a warm start are often those
of an earlier one. Scheduling one takes a tenth of the time that compiling and linking it takes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 30
"""What a folder may hold. The entries that were used longest ago go first."""
DIGEST, LENGTH = 32, 8
"""Bytes at an entry's start: the digest of all that follows, and how long the binary is."""


@dataclass(frozen=True)
class Entry:
    """A library, or a GPU's machine code, and the source that belongs to it."""

    binary: bytes
    source: str


def key(*parts: str) -> str:
    """The name of what is made from the parts, and from nothing else."""
    told = hashlib.sha256()
    for part in parts:
        told.update(hashlib.sha256(part.encode()).digest())
    return told.hexdigest()


def read(folder: Path, name: str) -> Entry | None:
    """None where there is none, or no whole one."""
    path = folder / name
    try:
        content = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    rest = content[DIGEST:]
    if hashlib.sha256(rest).digest() != content[:DIGEST]:  # the machine went down meanwhile, say
        return None
    end = LENGTH + int.from_bytes(rest[:LENGTH])
    return Entry(rest[LENGTH:end], rest[end:].decode())


def write(folder: Path, name: str, entry: Entry) -> None:
    """Keep it if that is possible: whoever has made it has it anyway."""
    rest = len(entry.binary).to_bytes(LENGTH) + entry.binary + entry.source.encode()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                file.write(hashlib.sha256(rest).digest() + rest)
                file.flush()
                Path(file.name).rename(folder / name)
            except BaseException:
                Path(file.name).unlink()
                raise


def make_room(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove entries until the folder holds ``most`` bytes. Several processes may do so at once."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                seen = path.stat()
                found.append((seen.st_mtime, seen.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        with suppress(OSError):  # another user's, say
            path.unlink(missing_ok=True)
            total -= size

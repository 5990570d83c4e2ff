"""A cache of builds: libraries and their sources, by a hash of all that they depend on.

The programs of a job's last round, of a repeated search or of a warm start are often those of an
earlier search. Scheduling a program takes a tenth of the time that compiling and linking it takes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 30
"""Limit for all entries of a folder. The least recently used ones are removed first."""
DIGEST, LENGTH = 32, 8
"""Bytes of the two fields at an entry's start: the SHA-256 of everything that follows it, and the
length of the binary."""


@dataclass(frozen=True)
class Entry:
    """A library, or an object file, and the source that belongs to it ("" if it has none)."""

    binary: bytes
    source: str


def key(*parts: str) -> str:
    """Return the name of an entry: a hash of the parts. They must be all that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


def read(folder: Path, name: str) -> Entry | None:
    """Return the entry of that name and mark it as used; None if it is missing or damaged."""
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError:
        return None
    with suppress(OSError):  # for example, the folder is read-only
        os.utime(path)
    rest = content[DIGEST:]
    # for example, the machine went down while the entry was written
    if hashlib.sha256(rest).digest() != content[:DIGEST]:
        return None
    end = LENGTH + int.from_bytes(rest[:LENGTH])
    return Entry(rest[LENGTH:end], rest[end:].decode())


def write(folder: Path, name: str, entry: Entry) -> None:
    """Keep the entry under that name if it can be written.

    An OSError, such as that of a full disk, is ignored: the caller has the library already, and
    only a later build takes longer.
    """
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
    """Remove the least recently used entries until the folder holds at most ``most`` bytes.

    Several processes may do so at the same time.
    """
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
        with suppress(OSError):  # the entry may belong to another user
            path.unlink(missing_ok=True)
            total -= size

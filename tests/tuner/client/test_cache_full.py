"""The client's cache on a disk without room, for which a limit on the size of files stands in."""

import hashlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.client.cache import Cache
from tuner.errors import UnusableFile

CONTENT = b"x" * 100


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Cache]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    yield Cache(tmp_path / "cache")
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "cache").iterdir()) == []


def test_answer_without_room_is_not_kept(full: Cache) -> None:
    full.keep_answer("http://host/best", "etag", CONTENT)
    assert full.answer("http://host/best") is None


def test_artifact_without_room_is_refused_with_the_way_out(full: Cache) -> None:
    with pytest.raises(UnusableFile, match=r"File too large\); name another folder"):
        full.keep("kernel.so", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), [CONTENT])

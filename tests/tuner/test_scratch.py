"""Temporary files lie together, and go with their process or with the next one."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tuner.scratch import LOCK, scratch

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def age(folder: Path) -> None:
    long_ago = time.time() - 3600
    os.utime(folder / LOCK, (long_ago, long_ago))


def test_this_process_and_its_children_write_there_until_it_ends(temporary: Path) -> None:
    with scratch() as folder:
        assert folder.parent == temporary
        say = "import tempfile; print(tempfile.mkdtemp())"
        theirs = subprocess.run(
            [sys.executable, "-c", say], check=True, capture_output=True, text=True
        )
        assert Path(theirs.stdout.strip()).parent == folder
        assert Path(tempfile.mkdtemp()).parent == folder
    assert list(temporary.iterdir()) == []
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)


def test_what_a_killed_process_left_is_removed_by_the_next(temporary: Path) -> None:
    code = (
        "from tuner.scratch import scratch\n"
        "with scratch() as folder:\n"
        "    (folder / 'large').write_text('x'); print(folder, flush=True); input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    age(left)
    with scratch():
        assert left.exists()  # it is in use, however old
    process.kill()
    process.communicate()
    other = temporary / "convtune-of-another-program"
    other.mkdir()
    with scratch():
        assert not left.exists()
        assert other.exists()


def test_what_was_just_made_is_left_alone(temporary: Path) -> None:
    young = temporary / "convtune-young"
    young.mkdir()
    (young / LOCK).touch()
    with scratch():
        assert young.exists()

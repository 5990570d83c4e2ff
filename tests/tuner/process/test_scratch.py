"""A process's temporary files lie in one folder, which is removed at its end or, if it was killed,
by the next process."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuner.errors import NoDiskSpace, UnusableFile
from tuner.process.scratch import LOCK, PREFIX, must_have_room, scratch

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def with_lock(folder: Path) -> set[Path]:
    return {folder, folder.with_name(f"{folder.name}{LOCK}")}


def test_temporary_files_of_process_and_children_lie_in_the_scratch_folder(temporary: Path) -> None:
    with scratch() as own:
        folder = own.folder
        assert folder.parent == temporary
        say = "import tempfile; print(tempfile.mkdtemp())"
        theirs = subprocess.run(
            [sys.executable, "-c", say], check=True, capture_output=True, text=True
        )
        assert Path(theirs.stdout.strip()).parent == folder
        assert Path(tempfile.mkdtemp()).parent == folder
    assert list(temporary.iterdir()) == []
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)


def waiting(code: str) -> tuple[subprocess.Popen[str], str]:
    """Start a process that runs the code; return it and the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    process, said = waiting(
        "from tuner.process.scratch import scratch\n"
        "with scratch() as own:\n"
        "    (own.folder / 'large').touch(); print(own.folder, flush=True); input()\n"
    )
    left = Path(said)
    with scratch():
        assert (left / "large").exists()  # the process still uses its folder
    process.kill()
    process.communicate()
    other = temporary / "convtune-of-another-program"
    other.mkdir()
    assert left.exists()
    with scratch():
        assert not left.exists()
        assert other.exists()
    assert list(temporary.iterdir()) == [other]


def test_lock_without_a_folder_is_removed(temporary: Path) -> None:
    """The lock of a process that was killed before it made its folder is removed."""
    (temporary / f"{PREFIX}young{LOCK}").touch()
    with scratch() as own:
        assert set(temporary.iterdir()) == with_lock(own.folder)


def test_process_that_starts_while_others_sweep_keeps_its_folder(temporary: Path) -> None:
    """No process removes the folder of another process that is just starting."""
    code = (
        "from tuner.process.scratch import scratch\n"
        "for _ in range(100):\n"
        "    with scratch() as own:\n"
        "        (own.folder / 'file').touch()\n"
        "print('done', flush=True)\n"
    )
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(waiting, [code] * 4))
    assert [said for _, said in started] == ["done"] * 4
    for process, _ in started:
        assert process.wait(10) == 0
        process.communicate()
    assert list(temporary.iterdir()) == []


def test_lock_that_is_a_symlink_is_left_alone(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.touch()
    trap = temporary / f"{PREFIX}trap{LOCK}"
    trap.symlink_to(elsewhere)
    (temporary / f"{PREFIX}trap").mkdir()
    with scratch():
        assert (temporary / f"{PREFIX}trap").exists()
        assert trap.is_symlink()


@pytest.mark.parametrize("lock_too", [False, True])
def test_removed_scratch_folder_is_made_anew(temporary: Path, *, lock_too: bool) -> None:
    with scratch() as own:
        (own.folder / "kept").touch()
        own.ensure()
        assert (own.folder / "kept").exists()
        shutil.rmtree(own.folder)
        if lock_too:
            (with_lock(own.folder) - {own.folder}).pop().unlink()
        own.ensure()
        assert set(temporary.iterdir()) == with_lock(own.folder)
        with scratch():
            assert own.folder.exists()  # its lock is held, so no sweep has removed it
    assert list(temporary.iterdir()) == []


def test_symlink_in_place_of_the_scratch_folder_is_refused(temporary: Path) -> None:
    with scratch() as own:
        own.folder.rmdir()
        own.folder.symlink_to(temporary)
        with pytest.raises(UnusableFile, match="remove it"):
            own.ensure()


def test_must_have_room_raises_if_the_disk_has_too_little(temporary: Path) -> None:
    free = shutil.disk_usage(temporary).free
    must_have_room(free // 2, free)
    with pytest.raises(NoDiskSpace, match=rf"{temporary} has \d+ free.*set TMPDIR"):
        must_have_room(2 * free, 4 * free)

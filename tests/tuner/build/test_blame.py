"""A failure is the machine's fault if no other job could run on the machine either."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.build.blame import blame_candidate, blame_job, must_be_ready
from tuner.cli.doctor import examine
from tuner.errors import NoDiskSpace, NoLinker, NotReady, TunerError, UnusableFile
from tuner.process.scratch import Scratch, scratch
from tuner.settings import Settings


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scratch]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with scratch() as own:
        yield own


@pytest.fixture
def full_disk(own: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil._ntuple_diskusage(1000, 1000, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)


def of_system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    "error",
    [
        TunerError("no configuration worked"),
        NoDiskSpace("the inputs", 10**15, "there are fewer"),  # a small job has room
        of_system(errno.ENOENT),
        of_system(errno.ENOSPC),
    ],
)
def test_job_is_blamed_if_the_machine_could_run_another_job(own: Scratch, error: Exception) -> None:
    blame_job(error)


@pytest.mark.parametrize(
    "error",
    [
        NoLinker("/usr/bin/c++"),
        *map(of_system, (errno.EMFILE, errno.ENFILE, errno.EIO)),
    ],
)
def test_machine_is_blamed_for_errors_that_no_job_causes(own: Scratch, error: Exception) -> None:
    with pytest.raises(NotReady) as raised:
        blame_job(error)
    assert str(error) in str(raised.value)


def test_failed_trial_is_not_stored_if_the_machine_lacks_compiler_or_scratch(
    own: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in ("ok", "build_error", "run_error", "machine_error"):
        blame_candidate(status)
    monkeypatch.setenv("CXX", "/nowhere/c++")
    blame_candidate("wrong_answer")
    with pytest.raises(NoLinker):
        blame_candidate("machine_error")
    own.folder.rmdir()
    for status in ("build_error", "run_error", "machine_error"):
        with pytest.raises(FileNotFoundError):
            blame_candidate(status)


def test_machine_is_blamed_for_a_disk_that_is_full_without_the_jobs_files(full_disk: None) -> None:
    with pytest.raises(NotReady, match="make room there, or set TMPDIR to a larger disk"):
        blame_job(of_system(errno.ENOSPC))


def test_machine_is_blamed_for_a_missing_compiler(
    own: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(NotReady, match="CXX is '/nowhere/c\\+\\+'"):
        blame_job(TunerError("no configuration worked"))


def test_machine_is_blamed_for_a_missing_scratch_folder_until_it_is_remade(own: Scratch) -> None:
    own.folder.rmdir()
    with pytest.raises(NotReady, match=rf"{own.folder}.*TMPDIR"):
        blame_job(TunerError("no configuration worked"))
    must_be_ready(own)
    blame_job(TunerError("no configuration worked"))


def test_error_asks_to_remove_a_file_in_place_of_the_scratch_folder(own: Scratch) -> None:
    own.folder.rmdir()
    own.folder.touch()
    with pytest.raises(NotReady, match="remove it"):
        must_be_ready(own)
    own.folder.unlink()


def test_machine_is_blamed_for_a_scratch_path_that_is_not_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders cross to the children as JSON, which is UTF-8."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff"))
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(NotReady, match=r"b\\xff: the path is not valid UTF-8.*TMPDIR"):
        must_be_ready()
    with pytest.raises(UnusableFile):
        blame_candidate("build_error")
    (found,) = [each for each in examine(Settings()) if each.what == "folders"]
    assert (found.state, "not valid UTF-8" in found.detail) == ("missing", True)

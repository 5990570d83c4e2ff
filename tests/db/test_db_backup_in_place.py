"""Backups and restores whose file does not reach the disk or vanishes once it is in place, and the
permissions of their files."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Engine

from db.sql.errors import BackupRefused
from db.upkeep.backup import back_up, restore

Way = Callable[[str, Path], object]


@pytest.fixture
def dialect() -> str:
    return "sqlite"


@pytest.fixture(params=[back_up, restore])
def way(request: pytest.FixtureRequest) -> Way:
    return cast(Way, request.param)


@pytest.fixture
def copy(engine: Engine, url: str, tmp_path: Path, way: Way) -> Path:
    """Return the path of the copy. The copy exists if the test restores it."""
    path = tmp_path / "copy.db"
    if way is restore:
        back_up(url, path)
        engine.dispose()
    return path


def test_error_names_a_file_that_vanishes_once_it_is_in_place(
    copy: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    placed: list[Path] = []
    moved = Path.replace

    def placed_and_taken_away(part: Path, target: Path) -> Path:
        placed.append(target)
        moved(part, target)
        target.unlink()
        return target

    monkeypatch.setattr(Path, "replace", placed_and_taken_away)
    with pytest.raises(BackupRefused, match=r"in place, but .*No such file") as refused:
        way(url, copy)
    assert str(placed[-1]) in str(refused.value)
    for aside in tmp_path.glob("*.before-*"):
        assert str(refused.value).endswith(f"the replaced database is kept as {aside}")
    assert bool(list(tmp_path.glob("*.before-*"))) == (way is restore)


def test_failed_fsync_refuses_the_copy(
    copy: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """A failed fsync refuses the copy: some disks report a failed write only then."""
    kept = {each.name for each in tmp_path.glob("*.db")}

    def failing(opened: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(BackupRefused, match="Input/output error"):
        way(url, copy)
    assert {each.name for each in tmp_path.iterdir() if ".db-" not in each.name} == kept


def test_backup_and_restore_keep_file_permissions(engine: Engine, tmp_path: Path) -> None:
    path, copy = Path(str(engine.url.database)), tmp_path / "copy.db"
    path.chmod(0o600)
    url = engine.url.render_as_string(hide_password=False)
    back_up(url, copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    copy.chmod(0o644)
    engine.dispose()
    restore(url, copy)
    assert path.stat().st_mode & 0o777 == 0o600

"""On a full temporary folder no configuration fails, and the job waits for another disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ROOT, Database

from db import queue
from tests.chaos.disk import ALONE, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no small disk here: {why_not()}")
ON_A_SMALL_DISK = 'mount -t tmpfs -o size=$0k none "$1" && TMPDIR="$1" exec "${@:2}"'


def tuned(database: Database, disk: Path, kilobytes: int) -> subprocess.CompletedProcess[str]:
    """Run ``tuner tune`` with TMPDIR on a new disk of so many kilobytes."""
    order = ["tune", "conv1d", "--M", "20", "--N", "3", "--trials", "3", "--baselines", "none"]
    tuner = [sys.executable, "-m", "tuner", *order, "--target", "cpu"]
    return subprocess.run(
        [*ALONE, "bash", "-c", ON_A_SMALL_DISK, str(kilobytes), str(disk), *tuner],
        cwd=ROOT,
        env=os.environ | {"TUNER_DATABASE_URL": database.url},
        capture_output=True,
        text=True,
        check=False,
    )


def test_they_are_tried_again_when_there_is_room(database: Database, tmp_path: Path) -> None:
    """A job on a full disk stores no trials and is given back. The next command runs it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    full = tuned(database, disk, 80)
    assert full.returncode == 1
    assert f"temporary files, and {disk}" in full.stderr
    assert "make room there, or set TMPDIR to a larger disk" in full.stderr
    [job] = queue.list_jobs(database.engine).items
    assert (job.state, database.trials(job)) == ("queued", [])
    assert tuned(database, disk, 80_000).returncode == 0
    assert queue.get(database.engine, job.id).state == "succeeded"

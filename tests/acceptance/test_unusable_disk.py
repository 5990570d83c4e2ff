"""A full temporary folder, or one from which no library can be loaded, fails no configuration.

The job waits for another folder.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ROOT, Database

from db import queue
from tests.chaos.disk import ALONE, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no small disk here: {why_not()}")
ON_A_DISK = 'mount -t tmpfs -o $0 none "$1" && TMPDIR="$1" exec "${@:2}"'
TUNE = ("tune", "conv1d", "--M", "20", "--N", "3", "--trials", "3", "--baselines", "none")
USABLE = "size=80m"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The folder on which a disk is mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def run_on(
    database: Database, disk: Path, mounted: str, *order: str
) -> subprocess.CompletedProcess[str]:
    """Run ``tuner`` with TMPDIR on a new disk that is mounted with these options."""
    tuner = [sys.executable, "-m", "tuner", *order]
    return subprocess.run(
        [*ALONE, "bash", "-c", ON_A_DISK, mounted, str(disk), *tuner],
        cwd=ROOT,
        env=os.environ | {"TUNER_DATABASE_URL": database.url},
        capture_output=True,
        text=True,
        check=False,
    )


def test_job_on_a_full_disk_is_given_back_and_runs_later(database: Database, disk: Path) -> None:
    """A job on a full disk stores no trials and is given back. The next command runs it."""
    tune = (*TUNE, "--target", "cpu")
    full = run_on(database, disk, "size=80k", *tune)
    assert full.returncode == 1
    assert f"temporary files, and {disk}" in full.stderr
    assert "make room there, or set TMPDIR to a larger disk" in full.stderr
    [job] = queue.list_jobs(database.engine).items
    assert (job.state, database.trials(job)) == ("queued", [])
    assert run_on(database, disk, USABLE, *tune).returncode == 0
    assert queue.get(database.engine, job.id).state == "succeeded"


def test_worker_gives_its_job_back_if_no_library_can_be_loaded(
    database: Database, disk: Path
) -> None:
    job = database.submit({"M": 20, "N": 3}, trials=3)
    work = ("worker", "--once", "--target", "cpu")
    noexec = run_on(database, disk, f"{USABLE},noexec", *work)
    assert noexec.returncode == 1
    assert "no job can be run on this machine now" in noexec.stderr
    assert "noexec mount; name another folder in TMPDIR" in noexec.stderr
    now = queue.get(database.engine, job.id)
    assert (now.state, now.released, database.trials(job)) == ("queued", 1, [])
    assert run_on(database, disk, USABLE, *work).returncode == 0
    assert queue.get(database.engine, job.id).state == "succeeded"


@pytest.mark.parametrize("order", [("doctor",), ("ladder", "conv1d", "--target", "cpu")])
def test_doctor_and_ladder_refuse_a_noexec_folder_at_once(
    database: Database, disk: Path, order: tuple[str, ...]
) -> None:
    refused = run_on(database, disk, f"{USABLE},noexec", *order)
    assert refused.returncode == 1
    assert "noexec mount; name another folder in TMPDIR" in refused.stdout + refused.stderr

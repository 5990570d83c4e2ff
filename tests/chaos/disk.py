"""A storm in which a small disk under the database runs full again and again.

python -m tests.chaos.disk sqlite FOLDER FILLINGS SEED mounts the disk in a mount namespace of its
own and writes the damage, as JSON, to standard output. :func:`fill` runs it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.chaos.damage import Damage
from tests.chaos.hand import Habits
from tests.chaos.storm import Storm, rage
from tests.own_postgres import own_server

ROOT = Path(__file__).parents[2]
MEGABYTES = 128
LEASE_SECONDS = 2.0
PADDING = 30_000
JOBS_A_FILLING = 60
ALONE = ["unshare", "--mount", "--propagation", "private"]
if os.geteuid() != 0:
    ALONE += ["--user", "--map-root-user"]


@cache
def why_not() -> str | None:
    """Return the reason why this machine can't mount a small disk, or None if it can."""
    probe = [*ALONE, "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip()


def fill(kind: str, folder: Path, fillings: int, seed: int) -> Damage:
    """Run a storm over a ``sqlite`` or ``postgresql`` database on a disk that is filled repeatedly.

    The disk is filled ``fillings`` times. The folder must be empty; it gets the diaries.
    """
    command = [*ALONE, sys.executable, "-m", "tests.chaos.disk", kind, str(folder)]
    done = subprocess.run(
        [*command, str(fillings), str(seed)], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    return Damage(**json.loads(done.stdout.splitlines()[-1]))


def _main() -> None:
    kind, folder, fillings, seed = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
    with _small_disk() as disk, _database(kind, disk) as url:
        storm = Storm(
            blows={"filling": fillings},
            habits=Habits(LEASE_SECONDS, padding=PADDING),
            seed=seed,
            jobs=JOBS_A_FILLING * fillings,
            others={"filling": _filling(disk)},
            longest_calm=1.0,
        )
        damage = rage(url, folder, storm)
    print(json.dumps(damage.to_json()))


@contextmanager
def _small_disk() -> Iterator[Path]:
    # not in the folder of diaries: PostgreSQL's server, which is another user, must have access
    with tempfile.TemporaryDirectory(prefix="convtune-chaos-") as name:
        Path(name).chmod(0o711)
        disk = Path(name) / "disk"
        disk.mkdir()
        options = f"size={MEGABYTES}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
        try:
            yield disk
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)


@contextmanager
def _database(kind: str, disk: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{disk}/chaos.db"
        return
    space = disk / "space"
    space.mkdir()
    with own_server(space) as server:
        yield server.url


def _filling(disk: Path) -> Callable[[random.Random], None]:
    """Return a blow that keeps the disk full for 0.5 to 1.5 s.

    It fills whatever the database frees meanwhile.
    """
    ballast = disk / "ballast"

    def fill_up(draw: random.Random) -> None:
        with ballast.open("wb", buffering=0) as file:
            until = None
            while until is None or time.monotonic() < until:
                try:
                    file.write(bytes(2**20))  # unbuffered: the last write fills the rest
                except OSError:
                    until = until or time.monotonic() + draw.uniform(0.5, 1.5)
                    time.sleep(0.005)
        ballast.unlink()

    return fill_up


if __name__ == "__main__":
    _main()

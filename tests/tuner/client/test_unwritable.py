"""If a home or a folder is not writable, one line names it and the way out."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_process import ROOT, Service

from db.sql.engine import migrate, open_engine
from tuner.library.signing_key import default_path, own_public_key

LOAD = """
import sys
from tuner.client import Client
from tuner.errors import TunerError

with Client(sys.argv[1]) as client:
    best = client.best("conv1d", M=16384, N=32)
    try:
        print(client.load(best).path.name == best.artifacts.library.sha256 + ".so")
    except TunerError as error:
        print(error)
"""
OWNER_ONLY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
"""The command that runs a program as root without the capabilities to write everywhere."""


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "unwritable"
    folder.mkdir(mode=0o500)
    yield folder
    folder.chmod(0o700)


def run(home: Path, *command: str, cwd: Path | None = None, **variables: object) -> list[str]:
    """Run ``python COMMAND`` with that home; return the lines of its output. It must write nothing
    into the home."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TUNER_"))
    }
    environment |= {"HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*(OWNER_ONLY if os.geteuid() == 0 else []), sys.executable, *command],
        env=environment | {name: str(value) for name, value in variables.items()},
        cwd=cwd or ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    assert list(home.iterdir()) == []
    return done.stdout.splitlines()


def test_client_loads_a_library_in_a_read_only_home_if_other_folders_are_named(
    service: Service, unwritable: Path, tmp_path: Path
) -> None:
    load = ("-c", LOAD, service.url)
    (said,) = run(unwritable, *load)
    assert said.startswith(f"{unwritable}/.cache/convtune: nothing can be written there (Perm")
    assert "name another folder in XDG_CACHE_HOME, or give the client one: cache=" in said
    cache = tmp_path / "cache"
    (said,) = run(unwritable, *load, XDG_CACHE_HOME=cache)
    assert said.startswith(f"{unwritable}/.config/convtune/signers.json: can't be written (Perm")
    assert "name another folder in XDG_CONFIG_HOME, or the keys in TUNER_SIGNERS" in said
    key = own_public_key(default_path())
    assert run(unwritable, *load, XDG_CACHE_HOME=cache, TUNER_SIGNERS=key) == ["True"]
    config = tmp_path / "config"
    assert run(unwritable, *load, XDG_CACHE_HOME=cache, XDG_CONFIG_HOME=config) == ["True"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("jobs list", "may this user write it and its folder?"),
        ("export --out log.jsonl", "may this user write it and its folder?"),
        ("ladder conv1d --svg ladder.svg", "--svg: ladder.svg can't be written by this user"),
        ("tune conv1d --M 30 --N 5 --target cpu", "may this user write it and its folder?"),
    ],
)
def test_command_in_a_read_only_folder_fails_in_one_line(
    unwritable: Path, command: str, says: str
) -> None:
    (said,) = run(unwritable, "-m", "tuner", *command.split(), cwd=unwritable)
    assert said.startswith("tuner: ")
    assert says in said


@pytest.mark.parametrize("in_use", [False, True])
def test_db_check_works_on_a_read_only_database(
    unwritable: Path, tmp_path: Path, in_use: bool
) -> None:
    file = tmp_path / "kept" / "convtune.db"
    file.parent.mkdir()
    engine = open_engine(f"sqlite:///{file}")
    migrate(engine)
    if not in_use:
        engine.dispose()
    there = sorted(file.parent.iterdir())
    for path in (*there, file.parent):
        path.chmod(0o555)
    check = ("-m", "tuner", "db", "check")
    assert run(unwritable, *check, TUNER_DATABASE_URL=engine.url) == ["nothing is wrong"]
    assert sorted(file.parent.iterdir()) == there
    file.parent.chmod(0o755)
    engine.dispose()


def test_tune_command_in_a_read_only_home_names_the_signing_key(
    unwritable: Path, tmp_path: Path
) -> None:
    tune = ["tune", "conv1d", "--M", "30", "--N", "5", "--target", "cpu", "--trials", "1"]
    (said,) = run(unwritable, "-m", "tuner", *tune, cwd=tmp_path)
    assert said.startswith(f"tuner: the signing key {unwritable}/.config/convtune/signing_key.pem")
    assert "name another file in TUNER_SIGNING_KEY" in said


def test_doctor_finds_unwritable_folders(unwritable: Path, tmp_path: Path) -> None:
    doctor = ("-m", "tuner", "doctor")
    *_, folders, database = run(unwritable, *doctor, cwd=unwritable)
    assert folders.split()[:2] == ["missing", "folders"]
    assert database.split()[:2] == ["missing", "database"]
    assert f"may not write {unwritable}/.config/convtune; name another" in folders
    assert "can't be made: this user may not write" in database
    assert "TUNER_DATABASE_URL" in database
    elsewhere = {"XDG_CONFIG_HOME": tmp_path, "TUNER_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    *_, folders, database = run(unwritable, *doctor, cwd=unwritable, **elsewhere)
    assert "may not write" in folders and "XDG_CACHE_HOME" in folders
    assert "will be made" in database
    elsewhere |= {"XDG_CACHE_HOME": tmp_path, "TUNER_BUILD_CACHE": unwritable / "built"}
    *_, folders, _ = run(unwritable, *doctor, cwd=unwritable, **elsewhere)
    assert f"may not write {unwritable}/built; name another" in folders
    assert "TUNER_BUILD_CACHE" in folders

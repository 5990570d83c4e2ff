"""The file of the signing key: it is made once, readable by its owner only, and refused if others
could use or replace it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from db import queue
from db.sql.engine import migrate, open_engine
from tests.tuner.measure import remote
from tuner.device.detect import detect
from tuner.errors import BadSigningKey, UnusableFile
from tuner.library.signing_key import default_path, own_key, own_public_key, public_key_of
from tuner.process.child import Child
from tuner.settings import Settings
from tuner.worker.in_process import submit_job
from tuner.worker.worker import Worker

KINDS = (Encoding.PEM, PrivateFormat.PKCS8)
EC = generate_private_key(SECP256R1()).private_bytes(*KINDS, NoEncryption())
ED = Ed25519PrivateKey.generate()
LOCKED = ED.private_bytes(*KINDS, BestAvailableEncryption(b"secret"))
PLAIN = ED.private_bytes(*KINDS, NoEncryption())


def test_signing_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "signing_key.pem"
    made = public_key_of(own_key(path))
    assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert public_key_of(own_key(path)) == made
    assert sorted(each.name for each in path.parent.iterdir()) == [".lock", path.name]


def test_empty_tuner_signing_key_means_the_default_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TUNER_SIGNING_KEY", "")
    assert Settings().signing_key == default_path() == tmp_path / "convtune" / "signing_key.pem"


def test_default_path_without_a_home_asks_for_xdg_config_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    # With this HOME Python finds no home, as for a user without HOME and without a passwd entry.
    monkeypatch.setenv("HOME", "~")
    with pytest.raises(UnusableFile, match="XDG_CONFIG_HOME"):
        default_path()


def test_signing_key_path_follows_xdg_config_home_and_tuner_signing_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key lies in the user's configuration folder unless TUNER_SIGNING_KEY names a file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert default_path() == tmp_path / ".config" / "convtune" / "signing_key.pem"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert Settings().signing_key == tmp_path / "xdg" / "convtune" / "signing_key.pem"
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "elsewhere.pem"))
    assert Settings().signing_key == default_path() == tmp_path / "elsewhere.pem"


def test_reading_the_own_public_key_makes_no_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key.pem"))
    assert own_public_key(default_path()) is None
    assert list(tmp_path.iterdir()) == []
    made = own_key(default_path())
    assert own_public_key(default_path()) == public_key_of(made)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_key_file_that_others_may_access_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.pem"
    own_key(path)
    path.chmod(mode)
    with pytest.raises(BadSigningKey, match=rf"mode is {mode:04o}; .* chmod 600 {path}"):
        own_key(path)
    path.chmod(0o400)  # containers mount secrets with this mode
    own_key(path)


def test_key_in_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    own_key(folder / "key.pem")
    folder.chmod(0o770)
    with pytest.raises(BadSigningKey, match=f"mode is 0770; if nobody did: chmod go-w {folder}"):
        own_key(folder / "key.pem")
    folder.chmod(0o1777)  # the sticky bit keeps others from replacing the file
    own_key(folder / "key.pem")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_key_path_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in Path("/dev/null"), tmp_path, tmp_path / "pipe":
        with pytest.raises(BadSigningKey, match="is no plain file") as refused:
            own_key(path)
        assert "chmod" not in str(refused.value)


@pytest.mark.parametrize("name", ["key.pem", "."])
def test_key_or_folder_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    own_key(folder / "key.pem")
    os.chown(folder / name, 4321, -1)
    with pytest.raises(BadSigningKey, match=f"belongs to user 4321; .* chown {folder}"):
        own_public_key(folder / "key.pem")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no private key in PEM"),
        (b"no key", "no private key in PEM"),
        (PLAIN[:60], "no private key in PEM"),
        (PLAIN.replace(b"A", b"!"), "no private key in PEM"),
        (LOCKED, "without a password"),
        (EC, "another kind than Ed25519"),
        (b"-----BEGIN PRIVATE KEY-----\n" + b"A" * 100_000, "no private key in PEM"),
    ],
    ids=["empty", "text", "cut", "flipped", "locked", "other kind", "long"],
)
def test_damaged_key_is_refused_and_left_unchanged(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(BadSigningKey, match=says) as raised:
        own_key(path)
    assert str(path) in str(raised.value)
    assert path.read_bytes() == content


def test_key_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSigningKey, match="can't be read or made"):
        own_key(tmp_path / "file" / "key.pem")


AT_ONCE = """
import sys
from pathlib import Path
from tuner.library.signing_key import own_key, public_key_of
print("ready", flush=True)
sys.stdin.readline()
print(public_key_of(own_key(Path(sys.argv[1]))))
"""


def test_concurrent_processes_make_a_single_key(tmp_path: Path) -> None:
    path = tmp_path / "new" / "key.pem"
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, str(path)], stdin=pipe, stdout=pipe, text=True
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    keys = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert keys == {public_key_of(own_key(path))}


def test_worker_refuses_a_bad_key_before_it_takes_a_job(tmp_path: Path) -> None:
    bad = tmp_path / "key.pem"
    bad.write_bytes(PLAIN)
    bad.chmod(0o644)
    engine = open_engine(f"sqlite:///{tmp_path / 'convtune.db'}")
    migrate(engine)
    settings = Settings(signing_key=bad)
    device = detect("cpu")
    with pytest.raises(BadSigningKey, match="mode is 0644"):
        Worker(engine, device, settings)
    order = queue.JobOrder(
        operator="conv1d", workload_key="{}", workload={"M": 8, "N": 2}, target="cpu", trials=1
    )
    with pytest.raises(BadSigningKey):
        submit_job(engine, settings, order, device)
    assert queue.list_jobs(engine).items == []
    engine.dispose()


def test_worker_command_reports_a_bad_key_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "key.pem"
    bad.write_bytes(PLAIN)
    bad.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-m", "tuner.worker", "--target", "cpu", "--once"],
        env={
            **os.environ,
            "TUNER_SIGNING_KEY": str(bad),
            "TUNER_DATABASE_URL": f"sqlite:///{tmp_path / 'convtune.db'}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"tuner: the signing key {bad}: others may use it" in done.stderr


def test_child_does_not_see_the_path_of_the_signing_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key.pem"))
    child = Child()
    try:
        assert child.call(remote.variable, "TUNER_SIGNING_KEY", timeout=30) is None
    finally:
        child.close()

"""``tuner keys``: keys are made, listed and revoked, and a key is shown only when it is made."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from db.access import keys
from db.sql.engine import open_engine
from tests.tuner import shell


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'convtune.db'}"
    monkeypatch.setenv("TUNER_DATABASE_URL", url)
    return url


def ran(capsys: pytest.CaptureFixture[str], arguments: str) -> tuple[str, str, bool]:
    """Run ``tuner keys ARGUMENTS``; return standard output, standard error, and whether it
    succeeded."""
    code, out, err = shell.ran(capsys, "keys", *arguments.split())
    return out, err, code == 0


def test_keys_create_prints_nothing_but_the_key_and_only_once(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    out, err, _ = ran(capsys, "create ci --scope submit")
    engine = open_engine(url)
    [found] = keys.unrevoked(engine).items()
    engine.dispose()
    assert (keys.digest(out.strip()), found[1].scope) == (found[0], "submit")
    assert "can't be shown again" in err
    assert out.strip() not in err
    for listing in ("list", "list --json"):
        listed, err, _ = ran(capsys, listing)
        assert "ci" in listed
        assert out.strip() not in listed + err


@pytest.mark.parametrize(
    ("where", "why"), [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_key_that_can_not_be_printed_is_revoked(url: str, where: str, why: str) -> None:
    command = f"{sys.executable} -m tuner keys create ci --scope read {where}"
    ended = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert ended.returncode != 0
    assert f"tuner: standard output: {why}; the key ci, which" in ended.stderr
    engine = open_engine(url)
    assert keys.unrevoked(engine) == {}
    engine.dispose()


def test_keys_are_revoked_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ("ci --scope submit", "guest --scope read --days 7", "root --scope admin"):
        assert ran(capsys, f"create {arguments}")[2]
    assert ran(capsys, "revoke ci") == ("revoked ci\n", "", True)
    assert ran(capsys, "revoke 2") == ("revoked guest\n", "", True)
    out, err, _ = ran(capsys, "revoke root")
    assert (out, "no key is left" in err) == ("revoked root\n", True)
    ran(capsys, "create ci --scope read")
    lines = [line.split()[:4] for line in ran(capsys, "list")[0].splitlines()]
    assert lines == [
        ["1", "submit", "revoked", "ci"],
        ["2", "read", "revoked", "guest"],
        ["3", "admin", "revoked", "root"],
        ["4", "read", "valid", "ci"],
    ]
    told = json.loads(ran(capsys, "list --json")[0])
    assert [key["state"] for key in told] == ["revoked"] * 3 + ["valid"]
    assert [key["expires_at"] is None for key in told] == [True, False, True, True]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("create ci", "Missing option '--scope'"),
        ("create ci --scope write", "'--scope'"),
        ("create 7 --scope read", "must begin with a letter"),
        ("create ci --scope read --days 0", "'--days'"),
        ("create ci --scope read --days nan", "'--days'"),
        ("revoke nobody", "there is no unrevoked key 'nobody'; see tuner keys list"),
    ],
)
def test_keys_command_refuses_bad_arguments_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: str, says: str
) -> None:
    out, err, done = ran(capsys, arguments)
    assert (out, err.count("\n"), done) == ("", 1, False)
    assert says in err


def test_keys_create_refuses_a_name_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    ran(capsys, "create ci --scope read")
    assert "there is a key 'ci' already" in ran(capsys, "create ci --scope read")[1]

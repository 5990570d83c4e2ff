"""``tuner signers``: workers' public keys are listed, and one is withdrawn."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from db.results import signed, signers
from tests.tuner import shell

KEYS = ("0" * 64, "1" * 64)


@pytest.fixture
def engine(engine: Engine) -> Engine:
    for key in KEYS:
        signers.register(engine, signers.NewSigner(key, f"host-{key[0]}"))
    return engine


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str, Any]:
    code, out, err = shell.ran(capsys, "signers", *arguments)
    return out, err, code


def test_signers_list_shows_keys_and_hosts(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _, code = ran(capsys, "list")
    assert not code
    for line, key in zip(out.splitlines(), KEYS, strict=True):
        assert line.startswith(f"{signed.fingerprint(key)}  {key}  host-{key[0]}, ")
    listed = json.loads(ran(capsys, "list", "--json")[0])
    assert [(each["public_key"], each["host"]) for each in listed] == [
        (key, f"host-{key[0]}") for key in KEYS
    ]


def test_signers_withdraw_removes_a_key(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, code = ran(capsys, "withdraw", signed.fingerprint(KEYS[0]))
    assert not code
    assert "of host-0; tune the shapes whose libraries it signed again, with --retune" in out
    assert [each.public_key for each in signers.list_signers(engine)] == [KEYS[1]]
    _, err, code = ran(capsys, "withdraw", KEYS[0])
    assert (code, "there is no signer" in err) == (1, True)
    assert not ran(capsys, "withdraw", KEYS[1])[2]
    assert signers.list_signers(engine) == []


def test_signers_list_replaces_control_characters_of_a_host(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    signers.register(engine, signers.NewSigner("2" * 64, "a\x1b[1A\r\nSHA256:another"))
    out = ran(capsys, "list")[0]
    assert "a\ufffd[1A\ufffd\ufffdSHA256:another" in out
    assert len(out.splitlines()) == 3

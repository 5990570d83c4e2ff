"""``tuner doctor``: what it finds, and that it creates no file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import text

from db.sql.engine import migrate, open_engine
from db.sql.transaction import writing
from tuner.cli import doctor
from tuner.settings import Settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield


def found(what: str, url: str = "sqlite:///convtune.db") -> doctor.Finding:
    findings = {each.what: each for each in doctor.examine(Settings(database_url=url))}
    assert list(findings) == [
        "TVM",
        "C++ compiler",
        "CPU",
        "GPU",
        "quiet",
        "PyTorch",
        "folders",
        "database",
    ]
    return findings[what]


def test_doctor_does_not_make_a_missing_database(tmp_path: Path) -> None:
    finding = found("database")
    assert (finding.state, "will be made" in finding.detail) == ("absent", True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:////no/such/folder/x.db", "there is no folder /no/such/folder"),
        ("sqlite:///notes.txt", "is the file a database of convtune"),
        ("sqlite:///empty.db", "run `python -m db.migrations`"),
        ("sqlite:///newer.db", "install the release of convtune that wrote it"),
        ("nonsense", "TUNER_DATABASE_URL"),
        ("postgresql://u:secret@127.0.0.1:1/x", "is the server running"),
    ],
)
def test_doctor_reports_an_unusable_database(tmp_path: Path, url: str, says: str) -> None:
    (tmp_path / "notes.txt").write_text("no database " * 100)
    (tmp_path / "empty.db").touch()
    newer = open_engine("sqlite:///newer.db")
    migrate(newer)
    with writing(newer) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    newer.dispose()
    finding = found("database", url)
    assert finding.state == "missing"
    assert says in finding.detail
    assert "secret" not in finding.detail


def test_doctor_reports_a_ready_database() -> None:
    engine = open_engine("sqlite:///convtune.db")
    migrate(engine)
    engine.dispose()
    assert found("database").state == "ok"


def test_doctor_reports_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = found("C++ compiler")
    assert finding.state == "missing"
    assert "CXX is 'no-such-compiler'" in finding.detail


def test_doctor_prints_one_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    findings = doctor.examine(Settings(database_url="sqlite:////no/such/[folder]/x.db"))
    doctor.show(findings, Console(width=40))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [each.state for each in findings]
    assert lines[-1].endswith("create it first")
    assert "[folder]" in lines[-1]

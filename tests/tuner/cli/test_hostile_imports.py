"""``tuner import`` of an untrusted log stores all of it, or nothing and says why."""

import io
import sys
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from sqlalchemy import Engine, func, select

from db.records import listed
from db.sql.engine import migrate, open_engine
from db.sql.tables import metadata
from db.sql.transaction import reading
from templates.errors import InvalidRecords
from tests.foreign_logs import LINES, METASCHEDULE, OTHERS
from tests.hostile import logs
from tuner.cli import app as cli
from tuner.cli import records
from tuner.errors import UnusableFile


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    opened = open_engine(f"sqlite:///{tmp_path_factory.mktemp('imports') / 'convtune.db'}")
    migrate(opened)
    return opened


def rows(engine: Engine) -> dict[str, int]:
    """Return how many rows each table has."""
    with reading(engine) as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }


@settings(max_examples=200)
@given(logs([*LINES, *METASCHEDULE], OTHERS))
def test_untrusted_log_is_stored_whole_or_not_at_all(engine: Engine, log: bytes) -> None:
    before = rows(engine)
    try:
        read = records.read_log(io.BytesIO(log), "log")
        jobs = records.store(engine, read).jobs
    except InvalidRecords as refused:
        event("refused")
        assert all(fault.line and fault.field for fault in refused.faults)
        assert rows(engine) == before
        return
    event("taken")
    for job, _ in jobs:
        if job.search == listed.IMPORTED:
            assert len(listed.of_job(engine, job.id)) == job.trials
    assert rows(engine)["jobs"] == before["jobs"] + sum(created for _, created in jobs)


def test_log_above_the_size_limit_is_refused(engine: Engine, tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    with endless.open("wb") as stream:
        stream.truncate(10 * records.MAX_BYTES)  # a sparse file: it takes no disk space
    before = rows(engine)
    with endless.open("rb") as stream, pytest.raises(UnusableFile, match="split it"):
        records.read_log(stream, "endless")
    assert rows(engine) == before


@pytest.mark.parametrize(
    "log",
    [b'{"\\ud800": 1}', b'{"\\u001b[2J": 1}', b"\x1b[31m", b"\xff\xfe\x00", b"", b"[" * 10**6],
)  # fmt: skip
def test_import_command_refuses_a_malformed_log_in_one_line(
    log: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    (tmp_path / "log").write_bytes(log)
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'new.db'}")
    monkeypatch.setattr(sys, "argv", ["tuner", "import", str(tmp_path / "log")])
    with pytest.raises(SystemExit) as left:
        cli.main()
    said = capsysbinary.readouterr().err
    assert left.value.code == 1
    assert said.startswith(b"tuner: record 1: ")
    assert said.count(b"\n") == 1
    assert said.rstrip(b"\n").decode().isprintable()

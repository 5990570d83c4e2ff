"""The ``label`` of a job: set and searched by the command line and the client."""

import json
from pathlib import Path

import pytest

from db import queue
from db.contract.order import JobFilter, JobOrder
from db.sql.engine import migrate, open_engine
from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.shell import said
from tuner.client.client import Client
from tuner.errors import BadOrder
from tuner.job.order import parse_terms


def test_jobs_command_finds_and_shows_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'convtune.db'}"
    monkeypatch.setenv("TUNER_DATABASE_URL", url)
    engine = open_engine(url)
    migrate(engine)
    work = Conv1dWorkload(M=100, N=7)
    made = queue.submit(engine, JobOrder.of(work, label="Nightly [b]"))[0]
    queue.submit(engine, JobOrder.of(work, seed=1))
    engine.dispose()
    assert said(capsys, "jobs", "list", "--label", "NIGHT").split()[0] == made.id
    assert said(capsys, "jobs", "list", "--label", "day") == ""
    listed = json.loads(said(capsys, "jobs", "list", "--label", "nightly", "--json"))["items"]
    assert [job["label"] for job in listed] == ["Nightly [b]"]
    assert "label     Nightly [b]" in said(capsys, "jobs", "show", made.id)


def test_tune_command_stores_its_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label given to ``tuner tune`` is the label of the local job."""
    url = f"sqlite:///{tmp_path / 'convtune.db'}"
    monkeypatch.setenv("TUNER_DATABASE_URL", url)
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key"))
    shape = ["tune", "conv1d", "--M", "64", "--N", "3", "--baselines", "none"]
    said(capsys, *shape, "--target", "cpu", "--trials", "1", "--label", "Here")
    engine = open_engine(url)
    [job] = queue.list_jobs(engine, JobFilter(label="here")).items
    assert (job.label, job.state) == ("Here", "succeeded")
    engine.dispose()


def test_client_sends_a_label_and_gets_it_back(client: Client) -> None:
    job = client.submit("conv1d", M=77, N=7, label="of a program")
    assert (job.label, client.job(job).label) == ("of a program", "of a program")


@pytest.mark.parametrize("label", ["x" * 201, "a\tb", "", "  "])
def test_malformed_label_is_refused(label: str) -> None:
    with pytest.raises(BadOrder, match=r"^label: "):
        parse_terms({"label": label})

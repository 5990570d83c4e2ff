"""``tuner jobs wait``; jobs that are named by the beginning of their id; empty lists."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest
from sqlalchemy import Engine
from stored_best import claimed, new_trial, store

from db import queue
from db.contract.job import Job
from db.contract.order import JobOrder
from db.fleet import devices, workers
from db.results import trials
from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.shell import ran
from tuner.cli.commands import jobs as commands
from tuner.device import cpu_facts

WORK = Conv1dWorkload(M=100, N=7)
ORDER = JobOrder.of(WORK, target="cpu", trials=3, search="random", on_existing="retune")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at jobs every 20 ms."""
    monkeypatch.setattr(commands, "POLL_SECONDS", 0.02)


@pytest.fixture
def job(engine: Engine) -> Job:
    return queue.submit(engine, ORDER)[0]


def alive(engine: Engine, kind: str) -> None:
    """Register a worker that is alive, for a device of that kind."""
    found = devices.upsert_device(engine, cpu_facts.device().fingerprint() | {"kind": kind})
    workers.beat(engine, "w", host="h", pid=1, device_id=found.id, version="0", job_id=None)


def test_jobs_wait_fails_if_the_job_fails(
    engine: Engine, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    running = claimed(engine)
    device = devices.upsert_device(engine, cpu_facts.device().fingerprint())
    trials.add(engine, job.id, running.attempt, [new_trial(device.id, 4)])
    end = Timer(0.3, queue.finish, [engine, job.id, running.attempt, "failed", "no linker"])
    end.start()
    code, said, complained = ran(capsys, "jobs", "wait", job.id)
    end.join()
    assert (code, said) == (1, "")
    assert complained.splitlines()[-1] == f"tuner: job {job.id} failed: no linker"


def test_jobs_wait_fails_if_the_job_is_cancelled(
    engine: Engine, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    end = Timer(0.3, queue.cancel, [engine, job.id])
    end.start()
    code, said, complained = ran(capsys, "jobs", "wait", job.id[:8], "--json")
    end.join()
    assert (code, json.loads(said)["state"]) == (1, "cancelled")
    assert complained.splitlines()[-1] == f"tuner: job {job.id} was cancelled"


def test_jobs_wait_without_an_id_shows_the_newest_job(
    engine: Engine, libraries: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stored = store(engine, libraries["same-serial"])
    code, said, _ = ran(capsys, "jobs", "wait")
    assert code == 0
    assert f"job       {stored.id}\nstate     succeeded\n" in said
    code, said, _ = ran(capsys, "jobs", "wait", "--json")
    assert (code, json.loads(said)["id"]) == (0, stored.id)


def test_jobs_wait_says_once_why_no_worker_takes_the_job(
    engine: Engine, job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "NO_WORKER_SECONDS", 0.0)
    alive(engine, "cuda")
    end = Timer(0.5, queue.cancel, [engine, job.id])
    end.start()
    complained = ran(capsys, "jobs", "wait")[2]
    end.join()
    assert complained.count(f"tuner: job {job.id} waits: no living worker has a cpu device") == 1


def test_jobs_wait_fails_if_there_are_no_jobs(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, complained = ran(capsys, "jobs", "wait")
    assert (code, said) == (1, "")
    assert complained.startswith("tuner: there are no jobs; order one")


def test_jobs_show_and_list_say_why_no_worker_takes_a_job(
    engine: Engine, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    alive(engine, "cuda")
    assert "waits     no living worker has a cpu device" in ran(capsys, "jobs", "show", job.id)[1]
    told = json.loads(ran(capsys, "jobs", "show", job.id, "--json")[1])
    assert "no living worker has a cpu device" in told["waiting"]
    (listed,) = json.loads(ran(capsys, "jobs", "list", "--json")[1])["items"]
    assert listed["waiting"] == told["waiting"]
    alive(engine, "cpu")
    assert "waits" not in ran(capsys, "jobs", "show", job.id)[1]


def test_job_is_found_by_the_beginning_of_its_id(
    engine: Engine, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.id in ran(capsys, "jobs", "show", job.id[:6])[1]
    others = [queue.submit(engine, replace(ORDER, trials=n))[0].id for n in range(4, 21)]
    first = next(c for c in "0123456789abcdef" if sum(i[0] == c for i in [job.id, *others]) > 1)
    code, _, complained = ran(capsys, "jobs", "show", first)
    assert code == 1
    assert complained.startswith(f"tuner: several jobs begin with '{first}': ")
    assert complained.endswith("; give more of the id\n")
    for nobodys in ("%", "_", "f" * 33, "g", job.id[:-1] + ("0" if job.id[-1] != "0" else "1")):
        assert "there is no job" in ran(capsys, "jobs", "show", nobodys)[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("jobs list", "there are no jobs"),
        ("jobs list --state failed", "there are no failed jobs"),
        ("jobs list --operator conv1d", "there are no conv1d jobs"),
        ("jobs list --label %", "there are no jobs whose label contains '%'"),
        (
            "jobs list --state failed --operator conv1d --label net",
            "there are no failed conv1d jobs whose label contains 'net'",
        ),
        ("keys list", "there are no keys"),
        ("signers list", "there are no keys to sign with"),
    ],
)
def test_list_commands_say_that_a_list_is_empty(
    engine: Engine, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    assert ran(capsys, *words.split()) == (0, "", f"tuner: {says}\n")
    said = json.loads(ran(capsys, *words.split(), "--json")[1])
    assert said in ([], {"items": [], "next_cursor": None})


def test_best_of_an_untuned_shape_names_its_queued_job(
    engine: Engine, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    alive(engine, "cpu")
    complained = ran(capsys, "best", "conv1d", "--M", "100", "--N", "7")[2]
    assert f"yet: the job {job.id} is queued; wait for it: tuner jobs wait {job.id}" in complained

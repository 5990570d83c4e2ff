"""``tuner jobs``, ``tuner serve``, the help and the completion: what the shell shows."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from stored_best import claimed, store

from api.schemas.jobs import JobView
from api.schemas.trials import TrialView
from db import queue
from db.contract.job import Job
from db.contract.order import JobOrder
from db.results import trials
from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.shell import ran, said
from tuner.cli import app as cli
from tuner.cli.commands import serve
from tuner.terminal.bar import JobBar

WORK = Conv1dWorkload(M=100, N=7)


def ordered(engine: Any, trials: int) -> Job:
    order = JobOrder.of(
        WORK, target="cpu", trials=trials, search="random", on_existing="retune", seed=5
    )
    return queue.submit(engine, order)[0]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, err = ran(capsys, *arguments)
    assert code
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_jobs_list_shows_the_newest_first_and_in_pages(
    engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [ordered(engine, count) for count in (3, 4, 5)]
    lines = said(capsys, "jobs", "list").splitlines()
    assert [line.split()[0] for line in lines] == [job.id for job in reversed(jobs)]
    assert re.search(r"queued +0/5 +conv1d --M 100 --N 7$", lines[0])
    first = json.loads(said(capsys, "jobs", "list", "--limit", "2", "--json"))
    rest = json.loads(said(capsys, "jobs", "list", "--cursor", first["next_cursor"], "--json"))
    listed = [item["id"] for page in (first, rest) for item in page["items"]]
    assert listed == [job.id for job in reversed(jobs)]
    assert rest["next_cursor"] is None
    assert "older ones: --cursor" in said(capsys, "jobs", "list", "--limit", "1")
    assert said(capsys, "jobs", "list", "--state", "failed") == ""
    assert said(capsys, "jobs", "list", "--operator", "depthwise_conv2d") == ""


def test_jobs_show_prints_a_job_as_the_service_does(
    engine: Any, libraries: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    job = store(engine, libraries["same-serial"])
    log = trials.list_trials(engine, job.id).items
    told = json.loads(said(capsys, "jobs", "show", job.id, "--trials", "--json"))
    shown = [TrialView.model_validate(trial).model_dump(mode="json") for trial in log]
    assert [without_times(trial) for trial in told.pop("log")] == [
        without_times(trial) for trial in shown
    ]
    served = JobView.of(job, None, waiting=None).model_dump(mode="json")
    assert served.pop("links")
    assert told["device"]["kind"] == "cpu"
    assert without_times(told) == without_times(served | {"device": told["device"]})
    text = said(capsys, "jobs", "show", job.id, "--trials")
    for part in (
        "state     succeeded",
        "operator  conv1d --M 1001 --N 7 --mode same --kind correlate",
        "trials    0 of 3: 0 ok, 0 failed",
        "best      20.00 µs",
        "    2  build_error",
        "no such register",
    ):
        assert part in text


def without_times(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if not name.endswith("_at")}


def test_ascii_terminal_shows_question_marks_for_other_letters(engine: Any) -> None:
    order = JobOrder.of(WORK, label="печь µ")
    made = queue.submit(engine, order)[0]
    shown = subprocess.run(
        [sys.executable, "-m", "tuner", "jobs", "show", made.id],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"label     ???? ?" in shown.stdout


def test_jobs_cancel_ends_a_queued_job_and_marks_a_running_one(
    engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    running, waiting = ordered(engine, 3), ordered(engine, 4)
    assert claimed(engine).id == running.id
    assert "will stop after its trial" in said(capsys, "jobs", "cancel", running.id)
    assert "(to be cancelled)" in said(capsys, "jobs", "show", running.id)
    told = json.loads(said(capsys, "jobs", "cancel", waiting.id, "--json"))
    assert (told["id"], told["state"]) == (waiting.id, "cancelled")
    assert "was already cancelled" in refused(capsys, "jobs", "cancel", waiting.id)


def test_jobs_list_refuses_unknown_filters(engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "conv9d" in refused(capsys, "jobs", "list", "--operator", "conv9d")
    assert "'--state'" in refused(capsys, "jobs", "list", "--state", "lost")
    assert "the cursor was not made" in refused(capsys, "jobs", "list", "--cursor", "x")


@pytest.mark.parametrize("command", ["show", "wait", "cancel"])
def test_jobs_commands_refuse_an_unknown_job(
    engine: Any, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert "there is no job 'nosuch'; see tuner jobs list" in refused(
        capsys, "jobs", command, "nosuch"
    )


def test_help_of_each_command_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "--help")
    commands = (
        "tune best jobs model ladder export import serve worker rpc-server keys signers trust db "
        "doctor"
    )
    assert re.findall(r"│ ([a-z-]+) ", shown.partition("Commands")[2]) == commands.split()
    shapes = [
        [command, operator]
        for command in ("tune", "best", "ladder")
        for operator in ("conv1d", "depthwise_conv2d")
    ]
    jobs = [["jobs", command] for command in ("list", "show", "wait", "cancel")]
    models = [["model", command] for command in ("tune", "list", "show", "cancel")]
    keys = [["keys", command] for command in ("create", "list", "revoke")]
    for command in (*shapes, *jobs, *models, *keys, ["serve"], ["worker"], ["doctor"]):
        text = said(capsys, *command, "--help")
        assert f"Examples:\n\n tuner {' '.join(command)}" in re.sub(r" *\n( *\n)+", "\n\n", text)
    conv1d = said(capsys, "tune", "conv1d", "--help")
    assert "full|same|valid" in conv1d
    assert "null" not in conv1d  # a shell would pass it on as a word
    depthwise = said(capsys, "tune", "depthwise_conv2d", "--help")
    assert "1|2|3|4" in depthwise and "NCHW|NHWC" in depthwise
    assert "Annotated" not in depthwise


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_is_a_script(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    script = said(capsys, "--show-completion", shell)
    assert "_TUNER_COMPLETE" in script
    assert "tuner" in script


def test_serve_becomes_the_service(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[Any] = []
    monkeypatch.setattr(serve.os, "execve", lambda *given: became.extend(given))
    assert said(capsys, "serve", "--port", "0") == ""
    program, command, environment = became
    assert program == sys.executable
    assert command == [program, "-P", "-m", "api"]
    assert (environment["TUNER_HOST"], environment["TUNER_PORT"]) == ("127.0.0.1", "0")
    assert str(Path(cli.__file__).parents[2]) in environment["PYTHONPATH"].split(":")


def test_progress_bar_shows_state_rate_and_time_left() -> None:
    now, screen = [0.0], io.StringIO()
    console = Console(file=screen, width=100, force_terminal=True, color_system=None)
    with JobBar(console, clock=lambda: now[0]) as bar:

        def shown(state: str, measured: int, **more: Any) -> str:
            given = {"failed": 0, "best_us": None, "eta_seconds": None} | more
            bar.show(state=state, requested=64, measured=measured, **given)
            bar._bar.refresh()
            return screen.getvalue().replace("\r", "\n").splitlines()[-1]

        assert "waiting for a worker" in shown("queued", 0)
        assert "tuning" in shown("running", 8)
        now[0] = 4.0
        line = shown("running", 20, failed=2, best_us=12.345, eta_seconds=75.2)
        assert "best 12.35 µs" in line or "best 12.34 µs" in line
        assert "20/64 2 failed, 3.0 trials/s, 1:15 left" in line
        assert "choosing among the fastest" in shown("running", 64, best_us=1.0, eta_seconds=0.0)

"""The command line as a user runs it, in separate processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from processes import ROOT, SECONDS, Database, until
from runs import Bench, Clock

from db import queue
from tests.tuner.shell import said
from tuner.build.linker import linker
from tuner.device import cuda_facts
from tuner.settings import Settings
from tuner.worker.in_process import run_or_watch
from tuner.worker.worker import Worker

TUNE = ["tune", "conv1d", "--M", "512", "--N", "8", "--trials", "9", "--target", "cpu"]


class Shell:
    """Runs ``tuner …`` in the database's folder."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TUNER_DATABASE_URL": database.url,
            "TUNER_BUILD_WORKERS": "1",
        }

    def start(self, *arguments: str, module: str = "tuner.cli.app") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, module: str = "tuner.cli.app") -> str:
        """Run a command, which must succeed, and return its standard output."""
        process = self.start(*arguments, module=module)
        said, complained = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, complained
        return said


@pytest.fixture
def shell(tmp_path: Path, database: Database) -> Shell:
    return Shell(tmp_path, database)


def only_job(database: Database) -> queue.Job | None:
    found = queue.list_jobs(database.engine).items
    return found[0] if found else None


def called(arguments: list[str], database: Database, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command in this process and return what it prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_DATABASE_URL", database.url)
        return said(capsys, *arguments)


def test_stopped_tune_goes_on_if_the_command_is_repeated(
    shell: Shell, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    process = shell.start(*TUNE)

    def running() -> bool:
        job = only_job(database)
        return job is not None and job.state == "running"

    until(running)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=SECONDS)
    assert (said, process.returncode) == ("", 130)
    assert complained.splitlines()[-1].startswith("tuner: stopped; the same command goes on")
    assert "Traceback" not in complained
    given_back = only_job(database)
    assert given_back is not None
    assert (given_back.state, given_back.attempt, given_back.released) == ("queued", 1, 1)

    tuned = json.loads(shell.run(*TUNE, "--json"))
    assert tuned["job"] == given_back.id
    assert tuned["trials"] == 9
    assert tuned["time_us"] == tuned["timing"]["warm"]["median_us"] > 0
    shape = TUNE[1:6]
    process = shell.start(*TUNE, "--json")  # reused: no second job
    said, complained = process.communicate(timeout=SECONDS)
    assert json.loads(said) == tuned
    assert complained.startswith(f"tuner: already tuned by job {given_back.id}, 9 trials on 20")
    assert complained.endswith("; --retune continues the search\n")
    assert json.loads(called(["best", *shape, "--json"], database, capsys)) == tuned
    shown = called(["best", *shape], database, capsys)
    for part in ("template=", "default", "naive", "numpy.convolve", "cold"):
        assert part in shown


def test_python_files_of_the_user_are_not_imported_as_modules(
    shell: Shell, database: Database
) -> None:
    """The installed command does not search the folder that it runs in; nor do its processes."""
    for name in ("db", "queue", "random", "templates", "types"):
        (shell.folder / f"{name}.py").write_text("raise OSError('a file of the user')\n")
    command = [sys.executable, "-P", "-m", "tuner", *TUNE]
    subprocess.run(command, cwd=shell.folder, env=shell.environment, check=True)
    job = only_job(database)
    assert job is not None
    assert {trial.status for trial in database.trials(job)} == {"ok"}


def test_tune_takes_over_from_a_worker_that_is_gone(database: Database, bench: Bench) -> None:
    """``tuner tune`` waits for the lease of a dead worker and then runs the job itself."""
    job = database.submit({"M": 512, "N": 8}, search="annealing")  # unknown: it fails at once
    assert queue.claim(database.engine, "gone", ["cpu"]) is not None
    worker = Worker(database.engine, bench.device, Settings(build_workers=2))
    timer = Timer(1.5, database.run_out, [job])
    timer.start()
    since = Clock()
    try:
        ended = run_or_watch(database.engine, worker, job)
    finally:
        timer.join()
        worker.close()
    assert (ended.state, ended.attempt, ended.worker) == ("failed", 2, worker.name)
    assert since() > 1.5


def test_failing_job_prints_one_line(shell: Shell) -> None:
    """The compiler links the empty library of the checks, but no candidate."""
    compiler = shell.folder / "compiler"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in -c*|*"-x c"*) exec {linker()} "$@";; esac\nexit 1\n'
    )
    compiler.chmod(0o755)
    shell.environment["CXX"] = str(compiler)
    assert "build_error" in refused(shell)


def test_without_a_linker_no_job_begins(shell: Shell) -> None:
    shell.environment["CXX"] = "false"
    assert "link" in refused(shell)


def refused(shell: Shell) -> str:
    """Run a tuning that must fail, and return the one line of its error."""
    process = shell.start(*TUNE)
    said, complained = process.communicate(timeout=SECONDS)
    assert (said, process.returncode) == ("", 1)
    assert "Traceback" not in complained
    *_, last = complained.splitlines()
    assert last.startswith("tuner: ")
    return last


def test_worker_with_once_ends_at_once_if_no_job_waits(shell: Shell) -> None:
    assert shell.run("--once", module="tuner.worker") == ""


def test_worker_refuses_an_unknown_option_in_one_line(shell: Shell) -> None:
    process = shell.start("--nosuch", module="tuner.worker")
    said, complained = process.communicate(timeout=SECONDS)
    assert (said, process.returncode) == ("", 2)
    assert complained == "tuner: No such option: --nosuch; see tuner worker --help\n"


def test_doctor_reports_the_state_of_each_part(shell: Shell) -> None:
    found: list[dict[str, Any]] = json.loads(shell.run("doctor", "--json"))
    states = {each["what"]: each["state"] for each in found}
    assert [states[what] for what in ("TVM", "C++ compiler", "CPU", "database")] == ["ok"] * 4
    gpu = next(each for each in found if each["what"] == "GPU")
    missing = cuda_facts.missing()
    assert (gpu["state"], gpu["detail"]) == ("absent", missing) if missing else gpu["state"] == "ok"

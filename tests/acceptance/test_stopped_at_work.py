"""Workers and commands that are asked to end while a build, a run or a wait takes very long."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import ROOT, SECONDS, Database, is_server, started, until
from runs import Bench

from db import queue
from templates.conv1d.workload import Conv1dWorkload
from templates.template import Template
from tests.acceptance.deceptive import HangsAtLast, SlowBuild
from tests.tuner.measure.planted import Planted, PlantedHang
from tuner.build.compile import BuildOrder, program_of
from tuner.compare.runner import Runner
from tuner.errors import ChildCrashed
from tuner.job.lease import Cancelled
from tuner.job.progress import Progress
from tuner.process.stopping import Stopped, interruptible, stop_on_signals
from tuner.settings import Settings
from tuner.worker.in_process import run_to_success
from tuner.worker.kept_worker import KeptWorker
from tuner.worker.worker import Worker

SHAPE = {"M": 512, "N": 8}
LONG = 600.0
SETTLED = 1.5
"""Time, s, until a build or a run that has begun is certainly in progress."""


class Of(Worker):
    """A worker that searches only one template."""

    template: Template[Any]

    def _allowed_templates(self, job: queue.Job) -> list[Template[Any]]:
        return [self.template]


@contextmanager
def signalled(
    by: signal.Signals, reached: Callable[[], object], *, children: bool = False
) -> Iterator[None]:
    """Send this process a signal once ``reached`` is true; the block must end within 10 s of it.

    With ``children``, the signal goes to the process's descendants, too.
    """
    sent: list[float] = []

    def send() -> None:
        until(reached)
        time.sleep(SETTLED)
        sent.append(time.monotonic())
        for child in started() if children else ():
            child.send_signal(by)
        os.kill(os.getpid(), by)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert time.monotonic() - sent[0] < 10


def forks(pid: int) -> bool:
    """Return whether the process has a fork server.

    Having any child is no proof: an import may run ldconfig or uname.
    """
    with suppress(psutil.Error):
        return any(map(is_server, psutil.Process(pid).children()))
    return False


@pytest.mark.parametrize("children", [False, True], ids=["alone", "with its children"])
@pytest.mark.parametrize(
    ("template", "measured"),
    [(SlowBuild(), 0), (PlantedHang(), 0), (HangsAtLast(), 1)],
    ids=["building", "measuring", "deciding"],
)
def test_sigterm_does_not_wait_for_a_long_build_run_or_round(
    database: Database,
    bench: Bench,
    handlers: None,
    template: Template[Any],
    measured: int,
    *,
    children: bool,
) -> None:
    """A batch system or systemd sends the signal to all of a worker's processes, children too."""
    job = database.submit(SHAPE, trials=1, search="grid")

    def now() -> queue.Job:
        return queue.get(database.engine, job.id)

    settings = Settings(build_workers=1, build_seconds=LONG, run_seconds=LONG)
    worker = Of(database.engine, bench.device, settings)
    worker.template = template
    before = started()
    stop_on_signals()
    reached = lambda: now().state == "running" and now().trials_measured == measured  # noqa: E731
    with signalled(signal.SIGTERM, reached, children=children), pytest.raises(Stopped):
        worker.run()
    given_back = now()
    assert (given_back.state, given_back.attempt, given_back.released) == ("queued", 1, 1)
    assert given_back.trials_measured == measured
    assert started() <= before


def test_cancelling_does_not_wait_for_the_last_round(database: Database, bench: Bench) -> None:
    job = database.submit(SHAPE, trials=1, search="grid")

    asked: list[float] = []

    def cancel() -> None:
        until(lambda: queue.get(database.engine, job.id).trials_measured)
        time.sleep(SETTLED)
        asked.append(time.monotonic())
        queue.cancel(database.engine, job.id)

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled):
        bench.run(database, job, [HangsAtLast()], run_seconds=30, heartbeat_seconds=0.1)
    thread.join()
    assert time.monotonic() - asked[0] < 10


def test_job_is_given_back_if_the_signal_kills_a_child_process_first(
    database: Database, bench: Bench, handlers: None
) -> None:
    """A job whose child process the signal killed first is given back, not failed."""
    job = database.submit(SHAPE, trials=1)
    worker = Worker(database.engine, bench.device, Settings(build_workers=1))

    def ended(progress: Progress) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise ChildCrashed("the process died (signal SIGTERM)")

    stop_on_signals()
    held = worker.claim("cpu")
    assert held is not None
    with pytest.raises(Stopped):
        worker.take(held, ended)
    worker.close()
    given_back = queue.get(database.engine, job.id)
    assert (given_back.state, given_back.released, given_back.error) == ("queued", 1, None)


def test_sigterm_does_not_wait_for_a_comparison(
    bench: Bench, handlers: None, tmp_path: Path
) -> None:
    workload = Conv1dWorkload(**SHAPE)
    libraries = {}
    for name, template in {"empty": Planted(), "hanging": PlantedHang()}.items():
        config = template.default(workload, bench.device.limits)
        order = BuildOrder(
            workload.key,
            program_of(template),
            config,
            bench.device.target,
            tmp_path / f"{name}.so",
        )
        assert bench.builder.submit(order).result().status == "ok"
        libraries[name] = order.library
    stop_on_signals()
    with Runner(workload.key, bench.device) as runner:
        runner.wait_for_cases()
        with signalled(signal.SIGTERM, lambda: True), pytest.raises(Stopped):
            runner.compare(libraries)


def test_stopped_ladder_command_says_that_nothing_is_stored(database: Database) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "ladder", "conv1d", "--M", "1001", "--N", "7"],
        cwd=database.path.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TUNER_DATABASE_URL": database.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: forks(process.pid))  # the signal handlers are installed before the server starts
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    complained = process.communicate(timeout=SECONDS)[1]
    assert time.monotonic() - sent < 10
    assert complained.splitlines()[-1].startswith("tuner: stopped; nothing was stored")
    assert process.returncode == 1


def test_ctrl_c_does_not_wait_for_the_worker_that_holds_the_job(
    database: Database, bench: Bench, handlers: None
) -> None:
    job = database.submit(SHAPE)
    assert queue.claim(database.engine, "other", ["cpu"]) is not None
    with signalled(signal.SIGINT, lambda: True), pytest.raises(KeyboardInterrupt), interruptible():
        run_to_success(KeptWorker(database.engine, Settings(build_workers=1)), bench.device, job)
    still = queue.get(database.engine, job.id)
    assert (still.state, still.worker) == ("running", "other")

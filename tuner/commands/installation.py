"""``tuner serve`` and ``tuner worker``: the two processes of an installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import structlog
import typer

from tuner import logs
from tuner.commands.common import Target, TargetOption, database
from tuner.detect import detect
from tuner.gpus import chosen
from tuner.measure.linker import linker
from tuner.scratch import scratch
from tuner.settings import Settings
from tuner.shape_options import examples
from tuner.supervise import supervise
from tuner.worker import Stopped, Worker, stop_on_signals


def worker(
    target: TargetOption = Target.auto,
    once: Annotated[bool, typer.Option("--once", help="end when no job waits")] = False,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="all|0,1,…", help="a worker process for each of these GPUs"),
    ] = None,
) -> None:
    """Take jobs from the database and run them on this machine's device."""
    settings = Settings()
    logs.configure(settings.log_format)
    linker()
    if gpus is not None:
        if target is Target.cpu:
            raise typer.BadParameter("--gpus is for CUDA; leave --target cpu out")
        _one_each(chosen(gpus), settings, once)
        return
    device = detect(target.value)
    stop_on_signals()
    with database(settings) as engine, scratch():
        try:
            Worker(engine, device, settings).run(once)
        except Stopped:
            structlog.get_logger().info("worker_stopped")


def _one_each(gpus: Sequence[str], settings: Settings, once: bool) -> None:
    builders = max(1, settings.build_workers // len(gpus))
    members = {
        f"gpu {gpu}": {"CUDA_VISIBLE_DEVICES": gpu, "TUNER_BUILD_WORKERS": str(builders)}
        | ({"TUNER_METRICS_PORT": str(port + at)} if (port := settings.metrics_port) else {})
        for at, gpu in enumerate(gpus)
    }
    command = [sys.executable, "-m", "tuner.worker", "--target", "cuda"]
    stop_on_signals()
    try:
        supervise(members, command + ["--once"] * once, once)
    except Stopped:
        structlog.get_logger().info("workers_stopped")


def serve(
    host: Annotated[
        str, typer.Option(envvar="TUNER_HOST", help="address to listen on")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="TUNER_PORT", min=0, max=65535, help="port; 0 takes a free one")
    ] = 8000,
) -> None:
    """Serve the HTTP API (the same as: python -m api)."""
    environment = {
        **os.environ,
        "TUNER_HOST": host,
        "TUNER_PORT": str(port),
        # found where this program is, not in the working directory: other projects have an api too
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-P", "-m", "api"]
    os.execve(sys.executable, command, environment)  # noqa: S606  # a program without a compiler


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("tuner serve", "tuner serve --host 0.0.0.0 --port 80"))(serve)
    app.command(
        epilog=examples(
            "tuner worker", "tuner worker --target cpu --once", "tuner worker --gpus all"
        )
    )(worker)

"""``tuner worker``: run a worker, or one for each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.common import (
    Target,
    TargetOption,
    database,
    examples,
    must_name_servers,
    parse_address,
)
from tuner.process import own_modules
from tuner.process.stopping import Stopped, stop_on_signals

if TYPE_CHECKING:
    from tuner.farm.farm import Farm
    from tuner.settings import Settings


def worker(
    target: TargetOption = Target.auto,
    once: Annotated[bool, typer.Option("--once", help="end when no job waits")] = False,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="all|0,1,…", help="a worker process for each of these GPUs"),
    ] = None,
    rpc_tracker: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="measure on servers of this TVM RPC tracker"),
    ] = None,
    rpc_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="the key of those servers, such as h200")
    ] = None,
) -> None:
    """Take jobs from the database and run them on this machine's device.

    With --rpc-tracker, build here and measure on the devices of other machines.
    """
    import structlog

    from tuner.build.linker import must_link
    from tuner.device.detect import detect
    from tuner.device.gpus import chosen
    from tuner.library.signing_key import own_key
    from tuner.process import logs
    from tuner.process.scratch import scratch
    from tuner.settings import Settings
    from tuner.worker.worker import Worker

    settings = Settings()
    logs.configure(settings.log_format)
    must_link()
    own_key(settings.signing_key)
    if gpus is not None:
        if target is Target.cpu:
            raise typer.BadParameter("--gpus is for CUDA; leave --target cpu out")
        if rpc_tracker is not None:
            raise typer.BadParameter(
                "--gpus names GPUs of this machine; leave out --gpus or --rpc-tracker"
            )
        _run_worker_per_gpu(chosen(gpus), settings, once)
        return
    stop_on_signals()
    with ExitStack() as stack:
        try:
            farm = _farm(rpc_tracker, rpc_key, target, settings)
            device = detect(target.value) if farm is None else farm.device
            engine = stack.enter_context(database(settings))
            folder = stack.enter_context(scratch())
            Worker(engine, device, settings, farm=farm, scratch=folder).run(once)
        except Stopped:
            structlog.get_logger().info("worker_stopped")


def _farm(tracker: str | None, key: str | None, target: Target, settings: Settings) -> Farm | None:
    if tracker is None and key is None:
        return None
    if tracker is None or key is None:
        raise typer.BadParameter("give both --rpc-tracker and --rpc-key, or neither")
    must_name_servers(key, "--rpc-key")
    if target is not Target.auto:
        raise typer.BadParameter("the device is that of the RPC servers; leave --target out")
    if settings.metaschedule:
        raise typer.BadParameter("TUNER_METASCHEDULE searches on this machine's device only")
    from tuner.farm.farm import Farm

    return Farm(parse_address(tracker, "--rpc-tracker"), key)


def _run_worker_per_gpu(gpus: Sequence[str], settings: Settings, once: bool) -> None:
    """Run a worker process for each GPU, each with a share of the builders.

    If metrics are served, each worker has a port of its own, from TUNER_METRICS_PORT upwards.
    """
    import structlog

    from tuner.worker.supervise import supervise

    builders = max(1, settings.build_workers // len(gpus))
    members = {
        f"gpu {gpu}": {"CUDA_VISIBLE_DEVICES": gpu, "TUNER_BUILD_WORKERS": str(builders)}
        | ({"TUNER_METRICS_PORT": str(port + at)} if (port := settings.metrics_port) else {})
        for at, gpu in enumerate(gpus)
    }
    command = own_modules.command("tuner.worker", "--target", "cuda", *["--once"] * once)
    stop_on_signals()
    try:
        supervise(members, command, once)
    except Stopped:
        structlog.get_logger().info("workers_stopped")


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "tuner worker",
            "tuner worker --target cpu --once",
            "tuner worker --gpus all",
            "tuner worker --rpc-tracker 10.0.0.1:9190 --rpc-key h200",
        )
    )(worker)

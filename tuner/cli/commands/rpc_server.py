"""``tuner rpc-server``: offer this machine's device to workers elsewhere, by TVM's RPC tracker."""

from __future__ import annotations

import json
import socket
from typing import Annotated

import typer

from tuner.cli.common import (
    Target,
    TargetOption,
    examples,
    must_name_servers,
    parse_address,
)
from tuner.process import own_modules
from tuner.process.stopping import Stopped, stop_on_signals

PORT = 9091
"""TVM's own default for a server."""
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # only compared with --host


def rpc_server(
    tracker: Annotated[str, typer.Option(metavar="HOST:PORT", help="TVM's RPC tracker")],
    key: Annotated[
        str,
        typer.Option(
            help="the name under which workers ask for servers; one for each kind of device"
        ),
    ],
    host: Annotated[
        str, typer.Option(help="address to listen on, one that only workers reach")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65000, help="the first port to try")] = PORT,
    target: TargetOption = Target.auto,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="all|0,1,…", help="a server for each of these GPUs"),
    ] = None,
) -> None:
    """Let workers measure on this machine's device.

    Anyone who reaches the port can run programs here, because TVM's RPC has neither keys nor
    encryption.
    """
    import structlog

    from tuner.device.gpus import chosen
    from tuner.farm.tracker import must_answer
    from tuner.process import logs
    from tuner.process.scratch import must_hold_libraries, scratch
    from tuner.settings import Settings
    from tuner.worker.supervise import supervise

    logs.configure(Settings().log_format)
    if gpus is not None and target is Target.cpu:
        raise typer.BadParameter("--gpus is for CUDA; leave --target cpu out")
    kind = target.value if gpus is None else "cuda"
    members: dict[str, dict[str, str]] = {f"device {kind}": {}}
    if gpus is not None:
        members = {f"gpu {gpu}": {"CUDA_VISIBLE_DEVICES": gpu} for gpu in chosen(gpus)}
    where = parse_address(tracker, "--tracker")
    must_name_servers(key, "--key")
    _must_be_here(host)
    must_answer(where)
    given = {"tracker": where, "key": key, "host": host, "port": port}
    # if a server listens on all addresses, the tracker uses the one from which it connects
    given |= {"address": None if host in EVERYWHERE else host, "target": kind}
    command = own_modules.command("tuner.farm.server", json.dumps(given))
    stop_on_signals()
    with scratch() as own:
        must_hold_libraries(own.folder)
        try:
            supervise(members, command, once=False)
        except Stopped:
            structlog.get_logger().info("rpc_servers_stopped")


def _must_be_here(host: str) -> None:
    """Raise BadParameter if nothing can listen on this address.

    TVM's server would otherwise end with a traceback, and be restarted again and again.
    """
    try:
        for family, kind, _, _, at in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as tried:
                tried.bind(at)
    except OSError as error:
        why = f"--host {host}: nothing can listen there ({error.strerror or error})"
        raise typer.BadParameter(f"{why}; name an address of this machine") from error


def add_to(app: typer.Typer) -> None:
    app.command(
        "rpc-server",
        epilog=examples(
            "tuner rpc-server --tracker 10.0.0.1:9190 --key h200 --host 10.0.0.2",
            "tuner rpc-server --tracker 10.0.0.1:9190 --key h200 --host 10.0.0.2 --gpus all",
        ),
    )(rpc_server)

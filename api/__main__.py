"""Run the service on TUNER_HOST and TUNER_PORT: ``python -m api``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import uvicorn

from api.server import logs
from api.server.connections import BACKLOG, BoundedProtocol
from api.server.lifespan import StartupError, read_settings
from api.server.port import check_port_free

STOP_SECONDS = 5  # for unfinished answers: a client that reads nothing would block the exit


def main(arguments: Sequence[str] = ()) -> int:
    """Serve until a signal ends the process. Return the exit status: not 0 if the start failed.

    There are no arguments but ``--help``. Raises SystemExit for others.
    """
    argparse.ArgumentParser(
        prog="python -m api",
        description="Run the service.",
        usage="TUNER_HOST=… TUNER_PORT=… python -m api  (settings are environment variables)",
    ).parse_args(arguments)
    try:
        settings = read_settings()
        check_port_free(settings.host, settings.port)
    except StartupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    logs.configure(settings.log_format)
    uvicorn.run(
        "api.main:app",
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        http=BoundedProtocol,
        ws="none",
        backlog=BACKLOG,
        proxy_headers=settings.trusted_proxies is not None,
        forwarded_allow_ips=settings.trusted_proxies,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

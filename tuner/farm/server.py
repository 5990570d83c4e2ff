"""A process with TVM's RPC server, which offers this machine's device. It runs until it is ended.

``python -m tuner.farm.server '{"tracker": ["10.0.0.1", 9190], "key": "h200", …}'`` starts it.
``tuner rpc-server`` does so for users, and starts it anew if it ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from uuid import uuid4

import structlog

from tuner.device.detect import detect
from tuner.farm.runner import ENVIRONMENT
from tuner.farm.session import Session
from tuner.measure.confined import can_be_confined, probe_driver
from tuner.process import logs
from tuner.process.child import Child
from tuner.process.imports import preload
from tuner.settings import Settings

log = structlog.get_logger()

DETECT_SECONDS = 120.0
"""Limit for detecting the device."""
PORTS = 100
"""The server listens on the first free port of this many."""


def serve(
    tracker: tuple[str, int], key: str, host: str, port: int, address: str | None, target: str
) -> None:
    """Offer this machine's device to the tracker, under the key, until TVM's server gives up.

    The server listens on ``host``, at the first free port from ``port`` on. ``address`` is where
    workers reach it; None leaves that to the tracker. ``target`` is ``auto``, ``cpu`` or ``cuda``.
    Raises ChildFailed if the target's device can't be used.
    """
    child = Child()
    try:
        device = child.call(detect, target, timeout=DETECT_SECONDS)
    finally:
        child.close()
    if device.kind == "cuda":
        # sessions are forked from this process and inherit the answer
        can_be_confined(probe_driver)
    os.environ |= ENVIRONMENT  # nothing is compiled here
    preload(["tvm.rpc.server"])
    import tvm_ffi
    from tvm.rpc.server import PopenRPCServerState

    for name, function in Session(device, uuid4().hex).functions().items():
        tvm_ffi.register_global_func(name, function)
    threading.excepthook = _say_why_it_ends
    # TVM's Server class would run this in a child process. There nobody would see the thread end.
    state = PopenRPCServerState(
        host, port, port + PORTS, tracker_addr=tracker, key=key, custom_addr=address
    )
    log.info("rpc_server_started", key=key, address=address, port=state.port, device=device.name)
    state.thread.join()
    log.warning("rpc_server_ended", key=key)


def _say_why_it_ends(ended: threading.ExceptHookArgs) -> None:
    """Log the error that has ended a thread of TVM's server."""
    log.warning("rpc_server_lost", reason=f"{ended.exc_type.__name__}: {ended.exc_value}")


def main() -> None:
    """Serve with the arguments in the command line's JSON, and exit with 1."""
    given = json.loads(sys.argv[1])
    logs.configure(Settings().log_format)
    serve(**given | {"tracker": tuple(given["tracker"])})
    sys.exit(1)


if __name__ == "__main__":
    main()

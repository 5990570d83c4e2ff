"""The worker's end of a session with an RPC server.

These functions run in a child process, which can be killed while it waits for a server that has
vanished.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tuner.farm import wire

STOCK = (
    "the server is TVM's own, which measures by another protocol; "
    "start it with `tuner rpc-server` instead"
)

_sessions: list[Any] = []
"""The session of this process, if it has one."""


class Lost(Exception):
    """The tracker or the server does not answer, or is not one of ours."""


class Servers(NamedTuple):
    """How many servers a tracker has under a key, and how many of them no worker uses."""

    known: int
    free: int


def servers(tracker: tuple[str, int], key: str) -> Servers:
    """Return how many servers the tracker has under the key."""
    from tvm import rpc

    summary = rpc.connect_tracker(*tracker).summary()
    known = [each["key"] for each in summary["server_info"]]
    free = summary["queue_info"].get(key, {}).get("free", 0)
    return Servers(known.count(f"server:{key}"), free)


def connect(tracker: tuple[str, int], key: str) -> dict[str, Any]:
    """Wait for a free server and begin a session. Return the server's description of itself.

    An earlier session ends. Raises Lost if the tracker gives no server, or if the server is TVM's
    own and not ``tuner rpc-server``.
    """
    from tvm import rpc

    _sessions.clear()  # dropping a session ends it
    try:
        session = rpc.connect_tracker(*tracker).request(key, max_retry=1)
    except RuntimeError as error:
        raise Lost(str(error)) from error
    _sessions.append(session)
    try:
        session.get_function(wire.FUNCTION.format("describe"))
    except AttributeError as error:
        raise Lost(STOCK) from error
    return ask("describe", {}, {})


def ask(name: str, given: dict[str, Any], files: dict[str, Path]) -> dict[str, Any]:
    """Upload the files under their names, and call one of the server's functions.

    Return its answer. Raises Lost if the connection fails, or if the function raises.
    """
    (session,) = _sessions
    try:
        for uploaded, path in files.items():
            session.upload(str(path), uploaded)
        answer: dict[str, Any] = json.loads(
            session.get_function(wire.FUNCTION.format(name))(json.dumps(given))
        )
    except (RuntimeError, OSError) as error:
        raise Lost(f"{type(error).__name__}: {error}") from error
    return answer

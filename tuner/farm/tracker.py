"""The RPC tracker, as seen by who is about to offer it a device."""

from __future__ import annotations

import socket

from tuner.errors import NoTracker

SECONDS = 10.0


def must_answer(tracker: tuple[str, int]) -> None:
    """Raises NoTracker. TVM's server would ask for a minute and end with a traceback."""
    try:
        socket.create_connection(tracker, SECONDS).close()
    except OSError as error:
        raise NoTracker(tracker, str(error.strerror or error)) from error

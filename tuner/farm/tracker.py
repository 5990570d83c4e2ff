"""A check of the RPC tracker, before a device is offered to it."""

from __future__ import annotations

import socket

from tuner.errors import NoTracker

SECONDS = 10.0
"""Limit for the connection."""


def must_answer(tracker: tuple[str, int]) -> None:
    """Raise NoTracker if nothing listens at the tracker's address.

    Without this check, TVM's server would try for a minute and end with a traceback.
    """
    try:
        socket.create_connection(tracker, SECONDS).close()
    except OSError as error:
        raise NoTracker(tracker, str(error.strerror or error)) from error

"""The program of a :class:`tuner.process.child.Child`: it answers calls until its parent ends."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from tuner.process import channel
from tuner.process.confine import Confinement, confine

PR_SET_PDEATHSIG = 1


def main(
    descriptor: int, niceness: int, limits: dict[str, Any] | None, needed: Sequence[str]
) -> None:
    """Answer the calls that come through the socket ``descriptor``, until its far end closes.

    ``niceness`` is added to that of this process. ``limits`` are the fields of a
    :class:`Confinement`, or None. The modules ``needed`` are imported before the first call, so
    that a failing import is not blamed on a call."""
    die_with_parent()
    for name in needed:
        importlib.import_module(name)
    os.nice(niceness)
    parent = socket.socket(fileno=descriptor)
    if limits is not None:
        confine(Confinement(**limits))
    channel.send(parent, b"ready")
    for number in itertools.count(1):
        try:
            request = channel.receive(parent)
        except EOFError:
            return
        channel.send(parent, answered(number, request))


def answered(number: int, request: bytes) -> bytes:
    """Make the call that a request asks for, and return the answer to it. An error that the call
    raises is an answer too: this process goes on."""
    try:
        function, arguments = channel.read_request(request)
        return channel.answer(number, function, function(*arguments))
    except Exception:
        return channel.error(number, traceback.format_exc())


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, even within native code."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

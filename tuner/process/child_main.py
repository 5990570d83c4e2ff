"""The far end of :class:`tuner.process.child.Child`: runs what it is sent until its parent ends."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import signal
import socket
import sys
import traceback

from tuner.process import channel
from tuner.process.confine import Confinement, confine

PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent()
    os.nice(int(sys.argv[2]))
    parent = socket.socket(fileno=int(sys.argv[1]))
    limits = json.loads(sys.argv[3])
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
    """What comes of a request, as text: whatever is raised is an answer, not an end."""
    try:
        function, arguments = channel.read_request(request)
        return channel.answer(number, function, function(*arguments))
    except Exception:
        return channel.error(number, traceback.format_exc())


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends, which holds in native code too."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()

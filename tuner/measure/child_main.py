"""The far end of :class:`tuner.measure.child.Child`: runs what it is sent until its parent ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection

from tuner.measure.confine import Confinement, confine

PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent()
    os.nice(int(sys.argv[2]))
    connection = Connection(int(sys.argv[1]))
    limits = json.loads(sys.argv[3])
    if limits is not None:
        confine(Confinement(**limits))
    connection.send("ready")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        except Exception:  # what was sent can't be unpickled here: an answer, not an end
            connection.send((False, traceback.format_exc()))
            continue
        try:
            connection.send((True, function(*arguments)))
        except Exception:  # raised by the function, or by an answer that can't be pickled
            connection.send((False, traceback.format_exc()))


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends, which holds in native code too."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()

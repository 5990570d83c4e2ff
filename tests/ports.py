"""Free ports on loopback, for servers that are told their port before they start."""

import os
import random
import socket
from itertools import count

FIRST, EACH = 20_000, 1_500
"""First port, and the number of ports for each process of a parallel test run.

The ports lie below those that Linux gives to sockets bound to port 0, and each process has its own,
so that nobody takes a port between the probe and the server's start.
"""
_NEXT = count(random.randrange(EACH))  # noqa: S311  # so that two suites seldom share a port


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on; no port twice in a row."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = FIRST + EACH * (process % 8) + next(_NEXT) % EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

"""Ports of loopback for servers that are told theirs before they start."""

import os
import random
import socket
from itertools import count

FIRST, EACH = 20_000, 1_500
"""Below what Linux hands out to whoever asks for any, and apart among a suite's processes: nobody
takes one between the look and the server's own."""
_NEXT = count(random.randrange(EACH))  # noqa: S311  # suites side by side begin elsewhere


def free_port() -> int:
    """A port that nobody listens on."""
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

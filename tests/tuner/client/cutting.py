"""A TCP proxy that cuts a service's event streams short."""

import re
import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

from tests.tuner.answering import running

RESET = struct.pack("ii", 1, 0)


class Cutter(ThreadingTCPServer):
    """A proxy in front of the service at ``upstream``.

    ``budget`` is called for each event stream. It returns how many bytes of the answer pass (None:
    all), and whether the connection is then reset (True) or closed. ``resumed`` lists each stream's
    Last-Event-ID, or None for a stream that started from the beginning."""

    daemon_threads = True

    def __init__(self, upstream: str, budget: Callable[[], tuple[int | None, bool]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.budget = urlsplit(upstream), budget
        self.resumed: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseRequestHandler):
    server: Cutter
    request: socket.socket

    def handle(self) -> None:
        left: int | None = None
        reset = False
        address = self.server.upstream.hostname, self.server.upstream.port
        with socket.create_connection(address) as service:
            while True:
                ready, _, _ = select.select([self.request, service], [], [])
                try:
                    data = ready[0].recv(65536)
                    if not data:
                        return
                    if ready[0] is self.request:
                        if b"/events" in data.partition(b"\r\n")[0]:
                            found = re.search(rb"last-event-id: (\S+)", data, re.IGNORECASE)
                            self.server.resumed.append(found[1].decode() if found else None)
                            left, reset = self.server.budget()
                        service.sendall(data)
                        continue
                    self.request.sendall(data[:left])
                except OSError:
                    return  # client or service has closed its end
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        break
        if reset:
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.request.close()


@contextmanager
def cutting(
    upstream: str, budget: Callable[[], tuple[int | None, bool]] = lambda: (None, False)
) -> Iterator[Cutter]:
    """Run a :class:`Cutter` in front of the service; by default it cuts nothing."""
    with running(Cutter(upstream, budget)) as server:
        yield server

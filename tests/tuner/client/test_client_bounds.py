"""Limits on what a client takes from a dishonest service: the bytes of an answer, and links that
lead elsewhere."""

import gzip
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.tuner.answering import running
from tuner.client import responses
from tuner.client.client import Client
from tuner.errors import ServiceError

MOST = 1 << 20
JOB = (
    b'{"id": "1", "state": "queued", "operator": "conv1d", "workload": {}, "target": "cpu",'
    b' "search": "xgb", "trials": {"requested": 1, "measured": 0, "ok": 0, "failed": 0},'
    b' "warm_start": {"enabled": true}, "attempt": 0,'
    b' "created_at": "2026-01-01T00:00:00Z", "links": {"self": "/jobs/1",'
    b' "trials": "/jobs/1/trials", "events": "%b", "cancel": "/jobs/1/cancel", "best": "/best"}}'
)
HONEST = b"/jobs/1/events"


class Answering(ThreadingHTTPServer):
    """A server that gives the same answer to every request; ``asked`` lists the requests' headers.
    A test may change status, encoding, content and where a redirect leads."""

    status, encoding, content, location = 200, "identity", JOB % HONEST, ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.asked.append(dict(self.headers))
        self.send_response(self.server.status)
        self.send_header("Content-Encoding", self.server.encoding)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Answering]:
    with running(Answering()) as answering:
        yield answering


@pytest.fixture
def client(server: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(responses, "MOST_BYTES", MOST)
    with Client(server.url, cache=tmp_path, key="secret") as opened:
        yield opened


def test_client_asks_for_gzip_and_reads_it(server: Answering, client: Client) -> None:
    server.encoding, server.content = "gzip", gzip.compress(server.content)
    assert client.job("1").links.events == HONEST.decode()
    assert server.asked[0]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_answer_above_the_byte_limit_is_refused(
    server: Answering, client: Client, status: int, encoding: str
) -> None:
    """The limit counts decompressed bytes: the compressed answer is small."""
    long = b" " * (4 * MOST)
    server.content = gzip.compress(long) if encoding == "gzip" else long
    server.status, server.encoding = status, encoding
    with pytest.raises(ServiceError, match=f"more than {MOST} bytes"):
        client.job("1")


@pytest.mark.parametrize("encoding", ["deflate", "gzip, gzip", "br", "zstd"])
def test_compression_that_was_not_asked_for_is_refused(
    server: Answering, client: Client, encoding: str
) -> None:
    server.encoding, server.content = encoding, zlib.compress(server.content)
    with pytest.raises(ServiceError, match="compressed by"):
        client.job("1")


@pytest.mark.parametrize("link", [b"http://elsewhere/events", b"https:/x", b"events", b""])
def test_a_link_that_is_no_path_is_refused(server: Answering, client: Client, link: bytes) -> None:
    server.content = JOB % link
    with pytest.raises(ServiceError, match="is no Job"):
        client.wait("1", timeout=5)
    assert len(server.asked) == 1


def test_link_that_begins_with_two_slashes_stays_with_the_service(
    server: Answering, client: Client
) -> None:
    """A browser would take ``//host/path`` for a link to another host."""
    server.content = JOB % b"//elsewhere.invalid/events"
    with pytest.raises(ServiceError, match="no convtune service"):
        client.wait("1", timeout=5)
    assert len(server.asked) == 2


def test_deeply_nested_error_answer_raises_a_service_error(
    server: Answering, client: Client
) -> None:
    server.status, server.content = 400, b"[" * 100_000
    with pytest.raises(ServiceError, match="HTTP 400"):
        client.job("1")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://me:hush@tuner.example:8443/jobs/1?x=1", "'https://tuner.example:8443'; give the"),
        ("https://" + "a" * 500, f"'https://{'a' * 72}'; give the"),
        ("https://tün.example/", "'https://xn--tn-xka.example'; give the"),
        ("/elsewhere", "another path of its own; give the"),
    ],
)
def test_redirect_is_reported_and_not_followed(
    server: Answering, client: Client, status: int, location: str, shown: str
) -> None:
    server.status, server.location, server.content = status, location, b""
    with pytest.raises(ServiceError) as refused:
        client.job("1")
    assert f"{server.url} redirects to {shown} client " in str(refused.value)
    assert "hush" not in str(refused.value)
    assert len(server.asked) == 1

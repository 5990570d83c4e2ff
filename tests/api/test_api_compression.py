"""Large answers are compressed if the client asks; artifacts, named by their bytes, never are."""

import gzip
import json

import pytest
from service_rows import LIBRARY, running, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db import queue

ASKED = {"accept-encoding": "gzip"}
PLAIN = {"accept-encoding": "identity"}
LARGE = ["/openapi.json", "/ui/best", "/static/vendor/htmx.min.js", "/records", "/jobs"]


def raw(client: TestClient, path: str) -> bytes:
    with client.stream("GET", path, headers=ASKED) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        return b"".join(answer.iter_raw())


@pytest.mark.parametrize("path", LARGE)
def test_large_answer_is_compressed_if_the_client_asks(
    client: TestClient, engine: Engine, path: str
) -> None:
    for length in (100, 101, 102):
        tuned(engine, "conv1d", {"M": length, "N": 3})
    plain = client.get(path, headers=PLAIN)
    assert "content-encoding" not in plain.headers
    sent = raw(client, path)
    assert gzip.decompress(sent) == plain.content
    assert len(sent) < 0.6 * len(plain.content)
    for answer in (plain, client.get(path, headers=ASKED)):
        assert "accept-encoding" in answer.headers["vary"].lower()


def test_small_answer_is_not_compressed(client: TestClient) -> None:
    assert "content-encoding" not in client.get("/healthz", headers=ASKED).headers


@pytest.mark.parametrize(
    ("asked", "is_compressed"),
    [
        ("gzip;q=0", False),
        ("br, GZIP ; q=0.000", False),
        ("identity", False),
        ("identity, gzip;q=0.5", False),
        ("", False),
        ("deflate, gzip;q=0.2", True),
        ("identity;q=0.1, gzip;q=0.2", True),
        ("identity, gzip", True),
        ("gzip;level=9", True),
    ],
)
def test_answer_is_compressed_only_if_the_client_prefers_gzip(
    client: TestClient, asked: str, is_compressed: bool
) -> None:
    """An answer is compressed only if Accept-Encoding prefers gzip by its weights (q)."""
    answer = client.get("/openapi.json", headers={"accept-encoding": asked})
    assert ("content-encoding" in answer.headers) == is_compressed
    assert "accept-encoding" in answer.headers["vary"].lower()


def test_head_has_the_compression_headers_of_get(client: TestClient) -> None:
    told = client.head("/openapi.json", headers=ASKED)
    assert told.headers["content-encoding"] == "gzip"
    assert int(told.headers["content-length"]) == len(raw(client, "/openapi.json"))
    assert told.content == b""


def test_compressed_and_plain_answers_have_the_same_content_and_etag(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 3})
    path = "/best/conv1d?M=100&N=3"
    compressed, plain = (client.get(path, headers=headers) for headers in (ASKED, PLAIN))
    assert "content-encoding" in compressed.headers
    assert compressed.json() == plain.json()
    tag = compressed.headers["etag"]
    assert tag == plain.headers["etag"]
    assert tag.startswith('W/"')
    assert client.get(path, headers=PLAIN | {"if-none-match": tag}).status_code == 304


def test_artifacts_are_never_compressed(client: TestClient, engine: Engine) -> None:
    job = tuned(engine, "conv1d", {"M": 100, "N": 3})
    best = client.get(client.get(f"/jobs/{job.id}").json()["links"]["best"]).json()
    url = best["artifacts"]["library"]["url"]
    whole = client.get(url, headers=ASKED)
    assert len(whole.content) > 1024
    assert "content-encoding" not in whole.headers
    assert whole.content == LIBRARY + job.id.encode()
    assert int(whole.headers["content-length"]) == len(whole.content)
    part = client.get(url, headers=ASKED | {"range": "bytes=0-1023"})
    assert (part.status_code, part.content) == (206, LIBRARY[:1024])
    assert not whole.headers["etag"].startswith("W/")


def test_event_stream_is_not_compressed(client: TestClient, engine: Engine) -> None:
    job = running(engine, "conv1d", {"M": 100, "N": 3})
    with client.stream("GET", f"/jobs/{job.id}/events", headers=ASKED) as stream:
        assert "content-encoding" not in stream.headers
        first = next(line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(first.removeprefix("data: "))["state"] == "running"
        queue.finish(engine, job.id, job.attempt, "failed", "no")

"""GET /artifacts/{sha256}: whole files, ranges, unchanged files (304) and damaged ones."""

import hashlib

import pytest
from problem_shape import problem
from service_rows import SIGNER, files
from sqlalchemy import Engine, update
from starlette.testclient import TestClient

from db.results import artifacts, signers
from db.sql.engine import writing
from db.sql.tables import artifacts as table

CONTENT = bytes(range(100))
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = f"/artifacts/{SHA256}"


@pytest.fixture(autouse=True)
def stored(engine: Engine) -> None:
    assert artifacts.put(engine, CONTENT, "library", "application/octet-stream") == SHA256


def test_artifact_is_served_whole_with_its_headers(client: TestClient) -> None:
    response = client.get(URL)
    assert (response.status_code, response.content) == (200, CONTENT)
    headers = response.headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-length"] == "100"
    assert headers["etag"] == f'"{SHA256}"'
    assert "immutable" in headers["cache-control"]
    assert headers["accept-ranges"] == "bytes"
    name = f"convtune-library-{SHA256[:12]}.so"
    assert headers["content-disposition"] == f'attachment; filename="{name}"'


def test_each_kind_of_artifact_has_its_file_name_and_media_type(
    client: TestClient, engine: Engine
) -> None:
    signers.register(engine, SIGNER)
    suffixes = ("so", "cu", "json", "json", "sig")
    for file, suffix in zip(files("kinds"), suffixes, strict=True):
        sha256 = artifacts.put(engine, file.content, file.kind, file.media_type)
        headers = client.get(f"/artifacts/{sha256}").headers
        assert headers["content-type"].split(";")[0] == file.media_type
        assert f"convtune-{file.kind}-" in headers["content-disposition"]
        assert headers["content-disposition"].endswith(f'.{suffix}"')


@pytest.mark.parametrize(
    ("wanted", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=90-", 90, 100),
        ("bytes=-5", 95, 100),
        ("bytes=-500", 0, 100),
        ("bytes=99-10000", 99, 100),
        ("BYTES=0-99", 0, 100),
    ],
)
def test_valid_range_gets_206_and_its_bytes(
    client: TestClient, wanted: str, start: int, stop: int
) -> None:
    response = client.get(URL, headers={"Range": wanted})
    assert (response.status_code, response.content) == (206, CONTENT[start:stop])
    assert response.headers["content-range"] == f"bytes {start}-{stop - 1}/100"
    assert response.headers["content-length"] == str(stop - start)


@pytest.mark.parametrize(
    "wanted",
    ["", "bytes", "bytes=-", "bytes=5-4", "lines=0-1", "bytes=0-1,3-4", f"bytes={10**3999}-"],
)
def test_malformed_or_multiple_ranges_get_the_whole_artifact(
    client: TestClient, wanted: str
) -> None:
    response = client.get(URL, headers={"Range": wanted})
    assert (response.status_code, response.content) == (200, CONTENT)


@pytest.mark.parametrize("wanted", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_range_outside_the_artifact_gets_416(client: TestClient, wanted: str) -> None:
    response = client.get(URL, headers={"Range": wanted})
    document = problem(response, 416, "range-not-satisfiable")
    assert response.headers["content-range"] == "bytes */100"
    assert "0-99" in document["detail"]


def test_artifact_honours_if_none_match_and_if_range(client: TestClient) -> None:
    tag = f'"{SHA256}"'
    same = client.get(URL, headers={"If-None-Match": tag, "Range": "bytes=0-9"})
    assert (same.status_code, same.content) == (304, b"")
    meant = client.get(URL, headers={"If-Range": tag, "Range": "bytes=0-9"})
    assert (meant.status_code, meant.content) == (206, CONTENT[:10])
    other = client.get(URL, headers={"If-Range": '"other"', "Range": "bytes=0-9"})
    assert (other.status_code, other.content) == (200, CONTENT)


def test_head_has_the_headers_of_an_artifact_without_its_bytes(client: TestClient) -> None:
    response = client.head(URL, headers={"Range": "bytes=0-9"})
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == "100"
    assert response.headers["etag"] == f'"{SHA256}"'
    assert client.head("/artifacts/" + "0" * 64).status_code == 404


@pytest.mark.parametrize("name", ["abc", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "%00" * 64])
def test_malformed_artifact_name_gets_422(client: TestClient, name: str) -> None:
    document = problem(client.get(f"/artifacts/{name}"), 422, "invalid-request", "sha256")
    assert "[0-9a-f]{64}" in document["detail"]


def test_unknown_artifact_name_gets_404(client: TestClient) -> None:
    problem(client.get("/artifacts/" + "0" * 64), 404, "unknown-artifact")


def test_damaged_bytes_are_not_served(client: TestClient, engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(update(table).values(content=CONTENT[::-1]))
    for headers in ({}, {"Range": "bytes=0-9"}):
        document = problem(client.get(URL, headers=headers), 500, "corrupt-artifact")
        assert SHA256 in document["detail"]


def test_artifact_route_refuses_a_query(client: TestClient) -> None:
    problem(client.get(f"{URL}?x=1"), 422, "invalid-request", "x")

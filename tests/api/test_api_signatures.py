"""Signatures over HTTP: valid ones are served; if any byte was changed, they are refused."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problem_shape import problem
from service_rows import SIGNER, files, tuned
from sqlalchemy import Engine, delete, update
from starlette.testclient import TestClient

from db.results import artifacts, signed, signers
from db.sql.engine import writing
from db.sql.tables import artifacts as table
from db.sql.tables import signers as registered

SHAPE = {"M": 16384, "N": 32}
URL = "/best/conv1d?M=16384&N=32"


@pytest.fixture
def links(client: TestClient, engine: Engine) -> dict[str, Any]:
    """The links to the artifacts of a signed best, by kind."""
    tuned(engine, "conv1d", SHAPE)
    found: dict[str, Any] = client.get(URL).json()["artifacts"]
    return found


def content(engine: Engine, sha256: str) -> bytes:
    return artifacts.get(engine, sha256).content


def written(engine: Engine, sha256: str, changed: bytes) -> None:
    """Overwrite the bytes of a stored artifact, but keep its name."""
    with writing(engine) as connection:
        row = update(table).where(table.c.sha256 == sha256)
        connection.execute(row.values(content=changed))


def refused(client: TestClient, link: dict[str, Any], says: str) -> None:
    """Assert that the artifact is not served, with a reason and the way out."""
    document = problem(client.get(link["url"]), 500, "corrupt-artifact")
    assert says in document["detail"]
    assert link["sha256"] in document["detail"]
    assert "tune its workload again" in document["detail"]


def test_signer_list_has_key_host_and_fingerprint(
    client: TestClient, links: dict[str, Any]
) -> None:
    [signer] = client.get("/signers").json()["items"]
    assert (signer["public_key"], signer["host"]) == (SIGNER.public_key, "gpu-host-1")
    assert signer["fingerprint"] == signed.fingerprint(SIGNER.public_key)
    assert signer["fingerprint"].startswith("SHA256:")


def test_signer_list_is_empty_if_no_signer_is_registered(client: TestClient) -> None:
    assert client.get("/signers").json() == {"items": [], "next_cursor": None}


def test_served_signature_is_valid_for_the_served_manifest(
    client: TestClient, links: dict[str, Any]
) -> None:
    """The served signature is valid for the served manifest and is by the registered signer."""
    got = {kind: client.get(link["url"]).content for kind, link in links.items()}
    signature = signed.parse(got["signature"])
    signature.check(got["manifest"])
    assert signature.manifest == links["manifest"]["sha256"]
    assert signature.public_key == SIGNER.public_key


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_artifact_with_a_flipped_bit_is_refused(
    client: TestClient, engine: Engine, links: dict[str, Any], data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(sorted(links)))
    sha256 = links[kind]["sha256"]
    sound = content(engine, sha256)
    bit = data.draw(st.integers(0, 8 * len(sound) - 1))
    flipped = bytearray(sound)
    flipped[bit // 8] ^= 1 << bit % 8
    written(engine, sha256, bytes(flipped))
    refused(client, links[kind], "do not match their name")
    if kind == "manifest":
        refused(client, links["signature"], "over a manifest that is missing or damaged")
    written(engine, sha256, sound)
    assert client.get(links[kind]["url"]).content == sound


def stored(engine: Engine, made: bytes) -> dict[str, Any]:
    """Store bytes as a signature under their own SHA-256, as an attacker of the database could."""
    sha256 = artifacts.put(engine, made, "signature", "application/json")
    return {"url": f"/artifacts/{sha256}", "sha256": sha256}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_signature_with_a_flipped_bit_is_refused_under_its_new_name(
    client: TestClient, engine: Engine, links: dict[str, Any], data: st.DataObject
) -> None:
    made = bytearray(content(engine, links["signature"]["sha256"]))
    bit = data.draw(st.integers(0, 8 * len(made) - 1))
    made[bit // 8] ^= 1 << bit % 8
    refused(client, stored(engine, bytes(made)), "are a signature ")


def test_signature_over_a_missing_manifest_is_refused(client: TestClient, engine: Engine) -> None:
    *_, signature = files("alone")
    link = stored(engine, signature.content)
    signers.register(engine, SIGNER)
    refused(client, link, "over a manifest that is missing or damaged")


def test_signature_of_an_unregistered_signer_is_refused(
    client: TestClient, engine: Engine, links: dict[str, Any]
) -> None:
    with writing(engine) as connection:
        connection.execute(delete(registered))
    fingerprint = signed.fingerprint(SIGNER.public_key)
    document = problem(client.get(links["signature"]["url"]), 404, "signer-not-registered")
    assert f"by {fingerprint}, which no worker has registered" in document["detail"]
    assert "tune its workload again" in document["detail"]
    assert client.get(links["library"]["url"]).status_code == 200


def test_signature_link_of_a_best_is_null_if_no_signature_is_stored(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", SHAPE)
    with writing(engine) as connection:
        connection.exec_driver_sql("DELETE FROM best_artifacts WHERE kind = 'signature'")
    assert client.get(URL).json()["artifacts"]["signature"] is None


def test_no_route_accepts_binary_data(client: TestClient) -> None:
    """No route takes binary data, so nobody can upload a library.

    Bodies are JSON or the text of a log.
    """
    document = client.get("/openapi.json").json()
    taken = {
        media_type
        for item in document["paths"].values()
        for operation in item.values()
        for media_type in operation.get("requestBody", {}).get("content", {})
    }
    assert "application/json" in taken
    assert taken <= {"application/json", "application/x-ndjson"}
    for item in document["paths"].values():
        for operation in item.values():
            assert "binary" not in str(operation.get("requestBody"))
            assert "multipart" not in str(operation.get("requestBody"))


def test_withdrawn_signature_gets_404_instead_of_304(
    client: TestClient, engine: Engine, links: dict[str, Any]
) -> None:
    """A withdrawn signature is not confirmed with 304, and caches must ask before they serve it."""
    url, headers = links["signature"]["url"], {"If-None-Match": f'"{links["signature"]["sha256"]}"'}
    assert client.get(url).headers["cache-control"] == "no-cache"
    assert client.get(url, headers=headers).status_code == 304
    signers.withdraw(engine, SIGNER.public_key)
    problem(client.get(url, headers=headers), 404, "signer-not-registered")

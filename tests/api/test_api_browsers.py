"""Requests of browsers: a page of another site can't make them write while there is no key.

An event stream ends once its key is revoked.
"""

import httpx2
import pytest
from fastapi import FastAPI
from live import served
from problem_shape import problem
from starlette.testclient import TestClient

from api.access import keyring
from api.main import create_app
from api.settings import Settings
from db import queue
from db.access import keys

ORDER = {"operator": "conv1d", "workload": {"M": 100, "N": 3}}
OWN = {"sec-fetch-site": "same-origin"}


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 0.0)


def sent(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://elsewhere"},
        {"origin": "http://["},
        {"origin": "null"},
    ],
)
def test_browser_request_from_another_site_can_not_write_without_a_key(
    app: FastAPI, headers: dict[str, str]
) -> None:
    """A POST without a body from another site is refused: browsers send it without a preflight."""
    with TestClient(app, base_url="http://127.0.0.1") as client:
        cancel = client.post("/jobs", json=ORDER).json()["links"]["self"] + "/cancel"
        problem(client.post(cancel, headers=headers), 401, "key-required")
        assert client.get("/jobs").json()["items"][0]["state"] == "queued"
        assert client.get("/jobs", headers=headers).status_code == 200
        submit = sent(keys.create(app.state.engine, "later", "submit")[1])
        assert client.post(cancel, headers=headers | submit).status_code == 202


@pytest.mark.parametrize(
    "headers",
    [{}, OWN, {"sec-fetch-site": "none"}, {"origin": "http://127.0.0.1"}],
)
def test_programs_and_our_own_pages_write_without_a_key(
    app: FastAPI, headers: dict[str, str]
) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.post("/jobs", json=ORDER, headers=headers).status_code == 201


@pytest.mark.parametrize("revoked", [False, True])
def test_event_stream_ends_once_its_key_is_revoked(database_url: str, revoked: bool) -> None:
    app = create_app(Settings(database_url=database_url, require_key_to_read=True))
    with served(app) as url:
        engine = app.state.engine
        reader, submit = (sent(keys.create(engine, of, of)[1]) for of in ("read", "submit"))
        job = httpx2.post(f"{url}/jobs", json=ORDER, headers=submit).json()["id"]
        events = f"{url}/jobs/{job}/events"
        with httpx2.stream("GET", events, headers=reader, timeout=20) as answer:
            lines = answer.iter_lines()
            assert any('"queued"' in line for line in iter(lambda: next(lines), ""))
            if revoked:
                keys.revoke(engine, "read")
            queue.cancel(engine, job)
            assert any('"cancelled"' in line for line in lines) != revoked

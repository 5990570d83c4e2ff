"""Limits for each client: requests a second, and unfinished jobs."""

from typing import Any

import pytest
from problem_shape import problem
from service_rows import tuned
from starlette.testclient import TestClient

from api.access import keyring, rate_limiter
from api.access.rate_limiter import RateLimiter
from api.main import create_app
from api.settings import Settings
from db.access import keys
from db.sql.choices import KeyScope

OWN = {"sec-fetch-site": "same-origin", "accept": "text/html"}
FORM = {"operator": "conv1d", "workload.M": "9000", "workload.N": "3"}


def order(length: int) -> dict[str, Any]:
    return {"operator": "conv1d", "workload": {"M": length, "N": 3}}


def headers_of_key(client: TestClient, name: str, scope: KeyScope = "submit") -> dict[str, str]:
    app: Any = client.app
    return {"authorization": f"Bearer {keys.create(app.state.engine, name, scope)[1]}"}


def test_a_bucket_holds_ten_seconds_and_fills_at_its_rate() -> None:
    now = [0.0]
    asked = RateLimiter(2.0, clock=lambda: now[0])
    assert [asked.acquire("a") for _ in range(20)] == [0.0] * 20
    assert asked.acquire("a") == pytest.approx(0.5)
    assert asked.acquire("b") == 0.0
    now[0] = 0.25
    assert asked.acquire("a") == pytest.approx(0.25)
    now[0] = 0.5
    assert (asked.acquire("a"), asked.acquire("a")) == (0.0, pytest.approx(0.5))
    now[0] = 1000.0
    assert [asked.acquire("a") > 0 for _ in range(21)] == [False] * 20 + [True]


def test_rate_below_one_allows_a_first_request() -> None:
    asked = RateLimiter(0.01, clock=lambda: 0.0)
    assert (asked.acquire("a"), asked.acquire("a")) == (0.0, pytest.approx(100))


def test_rate_limiter_forgets_the_least_recent_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "MAX_BUCKETS", 2)
    asked = RateLimiter(0.1, clock=lambda: 0.0)
    assert [asked.acquire(who) for who in "abab"][:2] == [0.0, 0.0]
    assert asked.acquire("b") > 0
    assert asked.acquire("c") == 0.0
    assert asked.acquire("b") > 0
    assert asked.acquire("a") == 0.0


def test_client_over_its_request_rate_gets_429(database_url: str) -> None:
    settings = Settings(database_url=database_url, requests_per_second=0.1)
    with TestClient(create_app(settings)) as client:
        assert client.get("/operators").status_code == 200
        answer = client.get("/operators")
        document = problem(answer, 429, "too-many-requests")
        assert "0.1 requests a second (TUNER_REQUESTS_PER_SECOND)" in document["detail"]
        assert document["limit"] == {"requests_per_second": 0.1}
        assert 1 <= int(answer.headers["retry-after"]) <= 10
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        assert client.get("/static/app.js").status_code == 200
        assert "Too many requests" in client.get("/", headers=OWN).text
        problem(client.post("/jobs", json=order(10)), 429, "too-many-requests")
        other = TestClient(client.app, client=("10.0.0.7", 1))
        assert other.get("/operators").status_code == 200


@pytest.mark.parametrize("told", [None, "10.0.0.0/8, ::1"])
def test_forwarded_for_header_counts_only_from_trusted_proxies(
    database_url: str, told: str | None
) -> None:
    """X-Forwarded-For names the client only if it comes from a trusted proxy and is an address.

    By default uvicorn trusts every request from 127.0.0.1 and takes any text for an address.
    """
    settings = Settings(database_url=database_url, requests_per_second=0.1, trusted_proxies=told)

    def status(name: str) -> int:
        """Return the status of a request from ``name`` whose X-Forwarded-For is ``name``, too.

        Uvicorn would take the client from that header.
        """
        asking = TestClient(client.app, client=(name, 0))
        return asking.get("/operators", headers={"x-forwarded-for": name}).status_code

    with TestClient(create_app(settings)) as client:
        assert [status(text) for text in ("one", "two", "x" * 1000)] == [200, 429, 429]
        expected = [429, 429, 429] if told is None else [200, 200, 429]
        assert [status(f"192.0.2.{n}") for n in (1, 2, 1)] == expected


@pytest.mark.parametrize("named", ["*", "proxy.example", "10.0.0.0/33", "127.0.0.1,"])
def test_trusted_proxies_must_be_addresses_or_networks(named: str) -> None:
    with pytest.raises(ValueError, match="addresses or networks with commas between"):
        Settings(trusted_proxies=named)


def test_each_key_has_a_request_rate_of_its_own(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 0.0)
    settings = Settings(database_url=database_url, requests_per_second=0.1)
    with TestClient(create_app(settings)) as client:
        first, second = headers_of_key(client, "first"), headers_of_key(client, "second")
        assert client.get("/jobs").status_code == 200
        for key in (first, second):
            assert client.get("/jobs", headers=key).status_code == 200
            said = problem(client.get("/jobs", headers=key), 429, "too-many-requests")["detail"]
            assert said.startswith("key ")
        guessed = client.get("/jobs", headers={"authorization": "Bearer ct_guessed"})
        problem(guessed, 429, "too-many-requests")  # a wrong key counts for its address


def test_key_over_its_quota_of_unfinished_jobs_gets_429(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 0.0)
    settings = Settings(database_url=database_url, max_unfinished_jobs=2)
    with TestClient(create_app(settings)) as client:
        first, second = headers_of_key(client, "first"), headers_of_key(client, "second")
        made = [client.post("/jobs", json=order(m), headers=first) for m in (10, 11)]
        assert [answer.status_code for answer in made] == [201, 201]
        answer = client.post("/jobs", json=order(12), headers=first)
        document = problem(answer, 429, "too-many-jobs")
        assert "at most 2 jobs" in document["detail"]
        assert "TUNER_MAX_UNFINISHED_JOBS" in document["detail"]
        assert document["limit"] == {"unfinished_jobs": 2}
        assert int(answer.headers["retry-after"]) > 0
        assert client.post("/jobs", json=order(10), headers=first).status_code == 200
        assert client.post("/jobs", json=order(12), headers=second).status_code == 201
        client.post("/ui/key", data={"key": first["authorization"][7:]}, headers=OWN)
        page = client.post("/ui/jobs", data=FORM, headers=OWN)
        assert page.status_code == 429
        assert "At most 2 jobs" in page.text
        client.post(f"/jobs/{made[0].json()['id']}/cancel", headers=second)
        assert client.post("/jobs", json=order(13), headers=first).status_code == 201


def test_a_key_of_scope_admin_has_no_limits(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 0.0)
    settings = Settings(database_url=database_url, max_unfinished_jobs=1, requests_per_second=0.1)
    with TestClient(create_app(settings)) as client:
        root = headers_of_key(client, "root", "admin")
        made = [client.post("/jobs", json=order(m), headers=root) for m in (10, 11, 12)]
        assert [answer.status_code for answer in made] == [201, 201, 201]


def test_address_has_a_quota_of_jobs_if_there_is_no_key(database_url: str) -> None:
    settings = Settings(database_url=database_url, max_unfinished_jobs=1)
    with TestClient(create_app(settings)) as client:
        assert client.post("/jobs", json=order(10)).status_code == 201
        problem(client.post("/jobs", json=order(11)), 429, "too-many-jobs")


def test_every_way_to_order_counts_toward_the_quota(database_url: str) -> None:
    settings = Settings(database_url=database_url, max_unfinished_jobs=1)
    with TestClient(create_app(settings)) as client:
        app: Any = client.app
        tuned(app.state.engine, "conv1d", {"M": 100, "N": 3})
        verify = client.get("/best/conv1d?M=101&N=3&match=nearest").json()["verify"]
        log = client.get("/records?of=bests").content
        lines = {"content-type": "application/x-ndjson"}
        assert client.post("/jobs", json=order(10)).status_code == 201
        problem(client.post(verify["url"], json=verify["body"]), 429, "too-many-jobs")
        problem(client.post("/records", content=log, headers=lines), 429, "too-many-jobs")
        assert client.post("/ui/jobs", data=FORM, headers=OWN).status_code == 429


def test_there_is_no_limit_unless_one_is_set(client: TestClient) -> None:
    assert {client.get("/operators").status_code for _ in range(300)} == {200}
    made = [client.post("/jobs", json=order(length)) for length in range(10, 60)]
    assert {answer.status_code for answer in made} == {201}

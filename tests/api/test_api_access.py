"""API keys: which scope each route needs, and how requests without a valid key are refused."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from problem_shape import problem
from service_rows import rows, tuned
from sqlalchemy import Engine, update
from starlette.routing import Route
from starlette.testclient import TestClient

from api.access import keyring
from api.main import ROUTE_MODULES, create_app
from api.server.lifespan import StartupError
from api.settings import Settings
from db.access import keys
from db.sql.tables import api_keys
from db.sql.transaction import writing

ORDER = {"operator": "conv1d", "workload": {"M": 100, "N": 3}}
HTML = {"accept": "text/html"}
OWN = {"sec-fetch-site": "same-origin"}
USE_KEYS = Path(__file__).parents[2] / "docs/how-to/use-keys.md"
SAFE = {"GET", "HEAD", "OPTIONS", "TRACE"}
METHODS = (*sorted(SAFE), "POST", "PUT", "PATCH", "DELETE", "QUERY", "BREW")
NO_ROUTES = (
    "/nowhere", "/jobs/", "//jobs", "/JOBS", "/ui/", "/ui/keys", "/ui/key/", "/ui/key/x",
    "/healthz/", "/healthz/x", "/HEALTHZ", "//healthz", "/readyz;x", "/static", "/statics/app.js",
    "/x/static/app.js", "/jobs/..%2Fhealthz", "/%68ealthz/x", "/.well-known/x", "/redoc",
)  # fmt: skip


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 0.0)


@pytest.fixture
def guarded(database_url: str) -> Iterator[TestClient]:
    """A client of a service that requires keys for reading, too."""
    settings = Settings(database_url=database_url, require_key_to_read=True)
    with TestClient(create_app(settings)) as opened:
        yield opened


def sent(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def made(client: TestClient, scope: keys.KeyScope, **more: Any) -> dict[str, str]:
    app: Any = client.app
    return sent(keys.create(app.state.engine, f"a-{scope}", scope, **more)[1])


def asked_of(client: TestClient) -> list[tuple[str, str]]:
    """Return method and path of every route of the application, hidden ones included."""
    app: Any = client.app
    own = [route for route in app.routes if isinstance(route, Route)]
    assert len(app.routes) == len(own) + len(ROUTE_MODULES)  # no router is included from elsewhere
    return [
        (method, route.path)
        for route in (*own, *(route for module in ROUTE_MODULES for route in module.router.routes))
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    ]


def path_of(route: str) -> str:
    return re.sub(r"\{[^}]+\}", "0", route)


def named_open() -> set[tuple[str, str]]:
    """Return method and path of the routes that docs/how-to/use-keys.md calls open.

    One file stands for all static files.
    """
    rows = re.search(r"\| open to everybody \| \|\n(?:\|.*\n)+", USE_KEYS.read_text())
    assert rows is not None
    named = re.findall("`([A-Z]+) (/[^`]*)`", rows[0])
    return {(method, path.replace("…", "app.js")) for method, path in named}


def every_path(client: TestClient) -> list[str]:
    """Return the paths of all routes, of a static file, and of NO_ROUTES."""
    routes = {path_of(path) for _, path in asked_of(client)} | {"/static/app.js"}
    assert len(routes) > 25
    assert routes >= {"/docs", "/openapi.json", "/metrics", "/"}
    return sorted(routes | set(NO_ROUTES))


@pytest.mark.parametrize("guards_reading", [False, True])
def test_only_routes_documented_as_open_answer_without_a_key(
    request: pytest.FixtureRequest, guards_reading: bool
) -> None:
    """Only the routes that docs/how-to/use-keys.md calls open answer requests without a key."""
    service = request.getfixturevalue("guarded" if guards_reading else "client")
    made(service, "admin")
    opened = named_open()
    assert {path for _, path in opened} <= set(every_path(service))
    for path in every_path(service):
        of_an_open_one = path in {known for _, known in opened} or path.startswith("/static/")
        for method in METHODS:
            asked = service.request(method, path, headers=OWN, follow_redirects=False)
            if (method, path) in opened:
                assert asked.status_code in {200, 303}, (method, path)
            elif of_an_open_one or (method in SAFE and not guards_reading):
                # no key is asked for, and methods other than GET and HEAD do nothing
                assert asked.status_code != 401, (method, path)
                assert method in {"GET", "HEAD"} or asked.status_code in {404, 405}, (method, path)
            else:
                assert asked.status_code == 401, (method, path)
                assert asked.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    "sent_along",
    [{}, {"authorization": "Bearer ct_nobodys"}, {"authorization": "Basic YTpi"},
     {"authorization": "Bearer "}, {"authorization": ""}, {"cookie": "convtune_key=ct_nobodys"}],
)  # fmt: skip
def test_invalid_key_opens_no_guarded_path(guarded: TestClient, sent_along: dict[str, str]) -> None:
    made(guarded, "admin")
    opened = {path for _, path in named_open()}
    for path in every_path(guarded):
        answer = guarded.get(path, headers=sent_along)
        is_open = path in opened or path.startswith("/static/")
        assert (answer.status_code == 401) != is_open, path


def test_writing_route_requires_the_scope_submit(client: TestClient) -> None:
    reader, writer = made(client, "read"), made(client, "submit")
    for method, route in asked_of(client):
        if method == "GET" or (method, route) in named_open():
            assert client.request(method, path_of(route)).status_code not in {401, 403}
            continue
        assert client.request(method, path_of(route)).status_code == 401
        refused = client.request(method, path_of(route), headers=reader)
        said = problem(refused, 403, "scope-too-small")["detail"]
        assert "a-read has scope read, but this needs submit" in said
        assert 'scope="submit"' in refused.headers["www-authenticate"]
        assert client.request(method, path_of(route), headers=writer).status_code not in {401, 403}


def test_unknown_path_is_guarded_like_a_route(guarded: TestClient) -> None:
    reader = made(guarded, "read")
    problem(guarded.get("/nowhere"), 401, "key-required")
    problem(guarded.delete("/jobs"), 401, "key-required")
    problem(guarded.get("/nowhere", headers=reader), 404, "route-not-found")
    problem(guarded.delete("/jobs", headers=reader), 403, "scope-too-small")


def test_request_refused_for_its_key_writes_nothing(client: TestClient, engine: Engine) -> None:
    reader = made(client, "read")
    before = rows(engine)
    answer = client.post("/jobs", json=ORDER)
    said = problem(answer, 401, "key-required")["detail"]
    assert "Authorization: Bearer ct_" in said
    assert "tuner keys create" in said
    assert answer.headers["www-authenticate"] == 'Bearer realm="convtune"'
    client.post("/jobs", json=ORDER, headers=reader)
    assert rows(engine) == before


def test_guarded_reading_accepts_a_key_of_any_scope(guarded: TestClient) -> None:
    for scope in keys.SCOPES:
        assert guarded.get("/jobs", headers=made(guarded, scope)).json()["items"] == []
    assert guarded.get("/jobs", headers={"authorization": "bearer  "}).status_code == 401


def test_revoked_or_expired_key_is_refused(client: TestClient, engine: Engine) -> None:
    made(client, "admin")
    secret = made(client, "submit", days=1)
    assert client.post("/jobs", json=ORDER, headers=secret).status_code == 201
    with writing(engine) as connection:
        connection.execute(update(api_keys).values(expires_at=1.0))
    answer = client.post("/jobs", json=ORDER, headers=secret)
    assert "has expired" in problem(answer, 401, "key-not-valid")["detail"]
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    keys.revoke(engine, "a-submit")
    answer = client.post("/jobs", json=ORDER, headers=secret)
    assert "was revoked" in problem(answer, 401, "key-not-valid")["detail"]


def test_new_and_revoked_keys_count_without_a_restart(client: TestClient, engine: Engine) -> None:
    assert client.post("/jobs", json=ORDER).status_code == 201
    made(client, "submit")
    assert client.post("/jobs", json=ORDER).status_code == 401
    keys.revoke(engine, "a-submit")
    assert client.post("/jobs", json=ORDER).status_code == 200


def test_keys_are_read_again_after_a_second(
    client: TestClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 1.0)
    now = [100.0]
    monkeypatch.setattr(keyring.time, "monotonic", lambda: now[0])
    made(client, "admin")
    secret = made(client, "submit")
    assert client.post("/jobs", json=ORDER, headers=secret).status_code == 201
    keys.revoke(engine, "a-submit")
    now[0] += 0.9
    assert client.post("/jobs", json=ORDER, headers=secret).status_code == 200
    now[0] += 0.2
    assert client.post("/jobs", json=ORDER, headers=secret).status_code == 401


def test_read_that_needs_no_key_does_not_look_up_keys(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(client, "admin")
    app: Any = client.app
    monkeypatch.setattr(app.state, "access", NeverAsked(app.state.access))
    for path in ("/jobs", "/operators", "/metrics", "/best/conv1d?M=100&N=3", "/healthz"):
        assert client.get(path).status_code in {200, 404}


class NeverAsked:
    def __init__(self, real: Any) -> None:
        self.needs_check = real.needs_check


def test_order_gets_503_if_the_keys_can_not_be_read(client: TestClient, engine: Engine) -> None:
    with writing(engine) as connection:
        connection.exec_driver_sql("DROP TABLE api_keys")
    problem(client.post("/jobs", json=ORDER), 503, "database-unavailable")


def test_without_any_key_only_loopback_is_answered(app: FastAPI) -> None:
    with (
        TestClient(app, base_url="http://127.0.0.1") as here,
        TestClient(app, base_url="http://10.0.0.1") as elsewhere,
    ):
        for path in ("/jobs", "/", "/openapi.json"):
            assert here.get(path).status_code == 200
            said = problem(elsewhere.get(path), 401, "key-required")["detail"]
            assert "only requests over loopback are answered" in said
        assert here.post("/jobs", json=ORDER).status_code == 201
        problem(elsewhere.post("/jobs", json=ORDER), 401, "key-required")
        assert elsewhere.get("/healthz").status_code == 200
        submit = made(elsewhere, "submit")
        assert elsewhere.get("/jobs").status_code == 200
        assert elsewhere.post("/jobs", json=ORDER, headers=submit).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "10.0.0.1", "127.0.0.1.x"])
def test_dns_rebinding_to_loopback_is_refused(app: FastAPI, host: str) -> None:
    """DNS rebinding does not work: the Host header must name loopback itself."""
    with TestClient(app, base_url="http://127.0.0.1") as client:
        for path in ("/jobs", "/"):
            problem(client.get(path, headers={"Host": host}), 401, "key-required")
        problem(client.post("/jobs", json=ORDER, headers={"Host": host}), 401, "key-required")
        for name in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "convtune.localhost"):
            assert client.get("/jobs", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize("host", ["x/healthz?", "x/static/", "x/ui/key#"])
def test_host_header_can_not_open_a_guarded_path(guarded: TestClient, host: str) -> None:
    made(guarded, "read")
    assert guarded.get("/jobs", headers={"Host": host}).status_code in (400, 401)
    assert guarded.post("/jobs", json=ORDER, headers={"Host": host}).status_code in (400, 401)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "no.such.host.invalid"])  # noqa: S104
def test_service_starts_beyond_loopback_only_if_a_key_exists(
    app: FastAPI, database_url: str, host: str
) -> None:
    settings = Settings(database_url=database_url, host=host)
    with pytest.raises(StartupError, match=r"TUNER_HOST is.*tuner keys create"):
        asyncio.run(started(create_app(settings)))
    with TestClient(app) as client:
        made(client, "read")
    with TestClient(create_app(settings)) as client:
        assert client.get("/readyz").status_code == 200


async def started(app: FastAPI) -> None:
    async with app.router.lifespan_context(app):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_service_on_loopback_needs_no_key(database_url: str, host: str) -> None:
    settings = Settings(database_url=database_url, host=host)
    with TestClient(create_app(settings)) as client:
        assert client.post("/jobs", json=ORDER).status_code == 201


def test_openapi_says_which_routes_need_a_key(client: TestClient, guarded: TestClient) -> None:
    before = client.get("/openapi.json").json()
    assert before["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert not any("security" in said for _, _, said in operations(before))
    key = made(client, "admin")
    for service in (client, guarded):
        for method, path, said in operations(service.get("/openapi.json", headers=key).json()):
            answer = service.request(method, path_of(path))
            assert (answer.status_code == 401) == ("security" in said), (method, path)
            assert {"401", "403", "429"} <= set(said["responses"])
    said = client.get("/openapi.json").json()["paths"]["/jobs"]
    assert said["post"]["security"] == [{"key": ["submit"]}]
    assert "security" not in said["get"]


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, said)
        for path, item in document["paths"].items()
        for method, said in item.items()
    ]


def test_only_private_caches_keep_guarded_answers(guarded: TestClient, client: TestClient) -> None:
    app: Any = guarded.app
    job = tuned(app.state.engine, "conv1d", {"M": 100, "N": 3})
    reader = made(guarded, "read")
    best = guarded.get(f"/jobs/{job.id}", headers=reader).json()["links"]["best"]
    url = guarded.get(best, headers=reader).json()["artifacts"]["library"]["url"]
    assert guarded.get(url, headers=reader).headers["cache-control"].startswith("private, max-age")
    assert guarded.get("/jobs", headers=reader).headers["cache-control"] == "private"
    assert client.get(url).headers["cache-control"].startswith("public, max-age")
    assert guarded.get("/static/app.js").headers["cache-control"] == "no-cache"


def test_person_enters_a_key_and_orders_a_job(client: TestClient) -> None:
    secret = made(client, "submit")["authorization"][7:]
    assert "Give one</a> first" in client.get("/", headers=HTML).text
    form = {"operator": "conv1d", "workload.M": "100", "workload.N": "3"}
    refused = client.post("/ui/jobs", data=form, headers=HTML | OWN)
    assert refused.status_code == 401
    assert 'action="/ui/key"' in refused.text
    assert refused.headers["www-authenticate"].startswith("Bearer ")
    wrong = client.post("/ui/key", data={"key": "ct_wrong"}, headers=HTML | OWN)
    assert wrong.status_code == 422
    assert "not known" in wrong.text
    given = client.post(
        "/ui/key",
        data={"key": f" {secret}\n", "back": "/ui/best?operator=conv1d"},
        headers=OWN,
        follow_redirects=False,
    )
    assert (given.status_code, given.headers["location"]) == (303, "/ui/best?operator=conv1d")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(given.headers["set-cookie"].split("; "))
    page = client.get("/", headers=HTML).text
    assert "Give one</a> first" not in page
    assert "Key: a-submit" in page
    assert secret not in page
    made_job = client.post("/ui/jobs", data=form, headers=OWN, follow_redirects=False)
    job = made_job.headers["location"]
    assert client.post(f"{job}/cancel", data={}, headers=OWN).status_code == 200
    assert client.post("/ui/key", data={}, headers=OWN, follow_redirects=False).status_code == 303
    assert "Give one</a> first" in client.get("/", headers=HTML).text


def test_key_cookie_does_not_authorize_writes_another_site_could_send(client: TestClient) -> None:
    secret = made(client, "submit")["authorization"][7:]
    client.cookies.set("convtune_key", secret)
    problem(client.post("/jobs", json=ORDER), 401, "key-required")
    problem(client.post("/jobs/0/cancel"), 401, "key-required")
    form = {"operator": "conv1d", "workload.M": "100", "workload.N": "3"}
    for headers in ({"sec-fetch-site": "same-site"}, {"origin": "http://elsewhere"}, {}):
        assert client.post("/ui/jobs", data=form, headers=headers).status_code == 400
        assert client.post("/ui/key", data={"key": secret}, headers=headers).status_code == 400


def test_key_cookie_authorizes_reading(guarded: TestClient) -> None:
    client, secret = guarded, made(guarded, "read")["authorization"][7:]
    page = client.get("/ui/devices?x=1", headers=HTML)
    assert page.status_code == 401
    assert 'name="back" value="/ui/devices?x=1"' in page.text
    client.post("/ui/key", data={"key": secret}, headers=OWN)
    assert client.get("/ui/devices", headers=HTML).status_code == 200
    assert client.get("/jobs").status_code == 200
    order = client.post("/ui/jobs", data={"operator": "conv1d"}, headers=HTML | OWN)
    assert order.status_code == 403


@pytest.mark.parametrize("back", ["//evil", "https://evil", "/\\evil", "evil", "/\nevil", ""])
def test_key_form_redirects_only_to_paths_of_the_service(client: TestClient, back: str) -> None:
    answer = client.post("/ui/key", data={"back": back}, headers=OWN, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_malformed_key_gets_401(client: TestClient) -> None:
    made(client, "submit")
    for value in (b"Bearer \xff\xfe", b"Bearer " + b"x" * 5000, "Bearer é".encode()):
        problem(client.post("/jobs", headers={"authorization": value}), 401, "key-not-valid")


def test_database_file_does_not_contain_a_keys_secret(client: TestClient, tmp_path: Path) -> None:
    secret = made(client, "submit")["authorization"][7:].encode()
    held = b"".join(path.read_bytes() for path in tmp_path.glob("service.db*"))
    assert b"a-submit" in held
    assert secret not in held

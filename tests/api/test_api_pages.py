"""HTML pages: their content, their refusals of bad input, and that everything is escaped."""

import re
from html import unescape
from typing import Any

import pytest
from problem_shape import problem
from service_rows import GPU, HOST, new_trial, running, tuned
from sqlalchemy import Engine, update
from starlette.testclient import TestClient

from api.web import assets
from api.web.pages import PAGE_HEADERS
from db import queue
from db.fleet import devices, workers
from db.results import ladders, trials
from db.sql.tables import jobs
from db.sql.transaction import writing
from templates import operator, operators

HTML = {"accept": "text/html,*/*"}
OWN = {"sec-fetch-site": "same-origin"}
ORDER = {"operator": "conv1d", "workload.M": "100", "workload.N": "3", "trials": "5"}
CONV1D = "/ui/best/conv1d?M=100&N=3"


def page(client: TestClient, path: str, status: int = 200) -> str:
    """Return the HTML of a page, after checking its headers and that it has no inline code."""
    answer = client.get(path, headers=HTML)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["vary"].startswith(PAGE_HEADERS["Vary"])  # compression adds to it
    sent = {name: answer.headers[name] for name in PAGE_HEADERS if name != "Vary"}
    assert sent == {name: value for name, value in PAGE_HEADERS.items() if name != "Vary"}
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    return answer.text


def send(client: TestClient, path: str, form: dict[str, str], **headers: str) -> Any:
    """Post a form, by default from a page of the service itself, and follow no redirect."""
    sent = headers or OWN
    return client.post(path, data=form, headers=HTML | sent, follow_redirects=False)


def measured(engine: Engine, job: queue.Job, count: int, **changes: Any) -> None:
    device = devices.upsert_device(engine, GPU)
    new = [new_trial(device, 10_000 - number, **changes) for number in range(count)]
    trials.add(engine, job.id, job.attempt, new)


def test_people_get_a_page_and_programs_the_index(client: TestClient) -> None:
    assert "<h1>Jobs</h1>" in page(client, "/")
    index = client.get("/")
    assert index.json()["service"] == "convtune"
    assert index.headers["vary"].startswith("Accept")
    assert "GET /ui/best" not in index.json()["routes"]


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"M": 100, "N": 3}, "M=100 N=3 float32 full convolve"),
        ({"M": 100, "N": 3, "B": 2, "bias": True, "layout": "NWC"},
         "M=100 N=3 B=2 float32 bias full convolve NWC"),
    ],
)  # fmt: skip
def test_pages_leave_out_default_fields_of_a_shape(
    client: TestClient, engine: Engine, shape: dict[str, Any], told: str
) -> None:
    job = running(engine, "conv1d", shape)
    assert f'<span class="shape">{told}</span>' in page(client, f"/ui/jobs/{job.id}")


@pytest.mark.parametrize("name", [each.name for each in operators()])
def test_order_form_has_the_fields_and_limits_of_the_operator(
    client: TestClient, name: str
) -> None:
    html = page(client, f"/?operator={name}")
    for field in operator(name).workload.model_fields:
        assert f'name="workload.{field}"' in html
    assert ('max="63"' in html) == (name == "depthwise_conv2d")
    assert "1 to 100,000" in html
    search = re.search(r'<select id="order-search".*?</select>', html, re.DOTALL)
    assert search
    assert "random" in search[0]


def test_sent_order_form_redirects_to_its_job(client: TestClient) -> None:
    answer = send(client, "/ui/jobs", ORDER | {"workload.max_error": "", "search": "random"})
    assert answer.status_code == 303
    job = client.get(answer.headers["location"].removeprefix("/ui")).json()
    assert (job["workload"]["M"], job["trials"]["requested"], job["search"]) == (100, 5, "random")
    html = page(client, answer.headers["location"])
    assert "conv1d" in html
    assert "queued" in html
    again = send(client, "/ui/jobs", ORDER | {"workload.max_error": "", "search": "random"})
    assert again.headers["location"] == f"/ui/jobs/{job['id']}?known=1"
    assert "had this job already" in page(client, again.headers["location"])


def test_invalid_order_form_is_shown_again_with_its_errors(client: TestClient) -> None:
    answer = send(client, "/ui/jobs", ORDER | {"workload.N": "0", "trials": "many"})
    assert answer.status_code == 422
    assert "must be at least 1, but is 0" in answer.text
    assert "must be an integer, but is &#34;many&#34;" in answer.text
    large = send(
        client, "/ui/jobs", ORDER | {"workload.M": "9" * 20, "workload.max_error": "9" * 300}
    )
    assert "must be at most 16777216, but is 99999" in large.text
    assert 'value="100"' in answer.text
    assert client.get("/jobs").json()["items"] == []
    assert send(client, "/ui/jobs", {"operator": "conv3d"}).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "http://testserver"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://elsewhere"},
        {"origin": "null"},
        {"origin": "http://["},
        {"x-nothing": "1"},
    ],
)
def test_a_form_of_another_site_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = send(client, "/ui/jobs", ORDER, **headers)
    assert answer.status_code == 400
    assert client.get("/jobs").json()["items"] == []


def test_form_with_only_an_origin_header_is_accepted(client: TestClient) -> None:
    """A form is accepted by its Origin if the browser sends no Sec-Fetch-Site."""
    assert send(client, "/ui/jobs", ORDER, origin="http://testserver").status_code == 303


def test_job_can_be_cancelled_and_duplicated_on_the_pages(
    client: TestClient, engine: Engine
) -> None:
    job = client.post("/jobs", json={"operator": "conv1d", "workload": {"M": 77, "N": 7}}).json()
    assert f"/ui/jobs/{job['id']}/cancel" in page(client, "/")
    answer = send(client, f"/ui/jobs/{job['id']}/cancel", {"back": "jobs"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert queue.get(engine, job["id"]).state == "cancelled"
    assert send(client, f"/ui/jobs/{job['id']}/cancel", {}).status_code == 409
    html = page(client, f"/?duplicate={job['id']}")
    assert 'name="workload.M" value="77"' in html
    html = page(client, f"/ui/jobs/{job['id']}")
    assert "No trial ended." in html and " yet" not in html


def test_job_page_shows_trials_curve_and_knobs_escaped(client: TestClient, engine: Engine) -> None:
    job = running(engine, "conv1d", {"M": 100, "N": 3}, trials=50)
    assert "No trial has ended yet" in page(client, f"/ui/jobs/{job.id}")
    measured(engine, job, 20)
    hostile = {"template": "direct", "threads": "<b>&", "hurt": 1}
    failing = {"status": "build_error", "time_us": None, "error": "<script>alert(1)</script>"}
    measured(engine, job, 1, config=hostile, **failing)
    html = page(client, f"/ui/jobs/{job.id}")
    assert "&lt;script&gt;alert" in html
    assert "&lt;b&gt;&amp;" in html
    assert "build error" in html
    assert "data-running" in html
    assert "<h3>threads</h3>" in html
    curve = client.get(f"/ui/jobs/{job.id}/curve").json()
    assert curve["number"] == list(range(1, 22))
    assert curve["best"][-1] == curve["time"][19] == min(curve["time"][:20])
    assert curve["status"][-1] == "build_error"
    assert "threads=10000" in curve["config"][0]
    part = page(client, f"/ui/jobs/{job.id}/live")
    assert part.lstrip().startswith('<div id="live"')
    assert 'data-last="21"' in part


def test_curve_of_9000_trials_is_thinned(client: TestClient, engine: Engine) -> None:
    job = running(engine, "conv1d", {"M": 100, "N": 3}, trials=10_000)
    measured(engine, job, 9_000)
    html = page(client, f"/ui/jobs/{job.id}")
    assert len(html) < 200_000
    curve = client.get(f"/ui/jobs/{job.id}/curve")
    told = curve.json()
    assert told["trials"] == 9_000
    assert len(told["number"]) < 1_300
    assert told["best"][-1] == 1_002.0
    assert len(curve.content) < 200_000


def test_best_page_has_roofline_peers_snippets_and_artifact_links(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 3}, HOST, time_us=4.0)
    limits = {**GPU["limits"], "peak_flops": 6.7e13, "peak_bandwidth": 4.8e12}
    wrong = {"name": "fast & wrong", "time_us": 0.5, "speedup": 0.3, "error": "wrong: <1>"}
    peers = [{"name": "numpy", "time_us": 300.0, "speedup": 200.0}, wrong]
    job = tuned(engine, "conv1d", {"M": 100, "N": 3}, GPU | {"limits": limits}, baselines=peers)
    html = page(client, CONV1D)
    assert f"/ui/jobs/{job.id}" in html
    assert "fast &amp; wrong" in html
    assert "wrong: &lt;1&gt;" in html
    assert "Roofline: ours runs at" in html
    assert re.findall("<h3>(Python|PyTorch|curl)</h3>", html) == ["PyTorch", "curl"]
    best = client.get("/best/conv1d?M=100&N=3").json()
    for link in best["artifacts"].values():
        assert link["url"] in html
    assert best["artifacts"]["library"]["sha256"] in html
    host = page(client, CONV1D + "&target=cpu")
    assert "numpy" in re.sub("<[^>]+>", "", host)
    text = unescape(re.sub("</?span[^>]*>", "", host))
    assert 'client.best("conv1d", M=100, N=3, target="cpu")' in text
    assert "The peaks of Test CPU (znver4) are not known" in host


def test_snippets_of_a_best_include_its_padding(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 3, "padding": (1, 2)}, HOST)
    html = page(client, CONV1D + "&padding=1,2")
    text = unescape(re.sub("</?span[^>]*>", "", html))
    assert 'client.best("conv1d", M=100, N=3, padding=[1, 2], target="cpu")' in text
    assert "M=100&N=3&padding=1%2C2&target=cpu" in text


def test_invalid_host_header_does_not_get_into_snippets(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 3})
    answer = client.get(CONV1D, headers=HTML | {"host": "a.b;rm -rf"})
    assert "http://localhost:8000" in answer.text
    assert "rm -rf" not in answer.text


def test_list_of_bests_is_searched_by_operator_shape_and_device(
    client: TestClient, engine: Engine
) -> None:
    assert "Nothing tuned matches" in page(client, "/ui/best")
    for length in (100, 200):
        tuned(engine, "conv1d", {"M": length, "N": 3})
    tuned(engine, "depthwise_conv2d", {"B": 1, "C": 1, "H": 8, "W": 8, "K": 3}, HOST)
    assert page(client, "/ui/best").count("/ui/best/") == 3
    found = page(client, "/ui/best?operator=conv1d&M=200&N=&mode=full&max_error=1e-5")
    assert found.count("/ui/best/") == 1
    assert "M=200" in found
    for link in re.findall('href="(/ui/best/[^"]+)"', found):
        page(client, link.replace("&amp;", "&"))
    host = devices.upsert_device(engine, HOST)
    assert page(client, f"/ui/best?device={host.id}").count("/ui/best/depthwise") == 1
    assert "at most 2147483647" in page(client, "/ui/best?operator=conv1d&M=99999999999999")
    assert "must be one of full" in page(client, "/ui/best?operator=conv1d&mode=5")
    page(client, "/ui/best?operator=conv3d", 404)
    page(client, "/ui/best?cursor=x", 422)


def test_page_of_an_untuned_shape_offers_to_order_it(client: TestClient) -> None:
    html = page(client, "/ui/best/conv1d?M=123&N=5", 404)
    assert "Not tuned yet" in html
    assert 'name="workload.M" value="123"' in html
    assert "must be at least 1" in page(client, "/ui/best/conv1d?M=0&N=5", 422)


def test_devices_page_shows_devices_and_workers_escaped(client: TestClient, engine: Engine) -> None:
    assert "No worker has been seen" in page(client, "/ui/devices")
    tuned(engine, "conv1d", {"M": 100, "N": 3})
    device = devices.upsert_device(engine, GPU | {"name": "<i>GPU</i>"})
    said = {"host": "here", "pid": 7, "version": "0.1.0"}
    workers.beat(engine, "worker-1", device_id=device.id, job_id="0" * 32, **said)
    html = page(client, "/ui/devices")
    assert "&lt;i&gt;GPU" in html
    assert "alive" in html
    assert "/ui/jobs/" + "0" * 32 in html
    assert "Test GPU" in page(client, "/ui/devices/live")


def test_device_with_few_known_limits_is_shown(client: TestClient, engine: Engine) -> None:
    devices.upsert_device(engine, GPU | {"name": "Bare GPU", "limits": {"units": 3}})
    html = page(client, "/ui/devices")
    assert "Bare GPU" in html and "Multiprocessors" in html
    assert "Peak, float32" not in html


def test_ladder_page_shows_its_rows_escaped(client: TestClient, engine: Engine) -> None:
    assert "tuner ladder depthwise_conv2d" in page(client, "/ui/ladder?operator=depthwise_conv2d")
    workload = operator("conv1d").workload.model_validate({"M": 16384, "N": 32})
    row: dict[str, Any] = {
        "document": "000", "timing": None, "max_error": None, "over_naive": 2.0,
        "over_before": None, "note": None,
    }  # fmt: skip
    rows = [
        row | {"name": "000 v1", "what": "rung", "adds": "<naive>", "time_us": 80.0, "t4_us": 25.0},
        row | {"name": "best", "what": "best", "adds": "", "time_us": 1.6, "t4_us": None},
    ]
    ladders.record(
        engine,
        ladders.NewLadder(
            operator="conv1d",
            workload_key=workload.key,
            workload=workload.model_dump(),
            device_id=devices.upsert_device(engine, GPU).id,
            rows=rows,
            documents=[{"number": "000", "title": "A & B", "workload": workload.model_dump()}],
            clocks={},
            versions={},
        ),
    )
    html = page(client, "/ui/ladder")
    assert "&lt;naive&gt;" in html
    assert "A &amp; B" in html
    assert html.count('class="mark"') == 1


def test_404_is_shown_as_a_page(client: TestClient) -> None:
    assert "There is no such" in page(client, "/ui/jobs/nothing", 404)
    page(client, "/ui/jobs/" + "0" * 32 + "/live", 404)
    page(client, "/ui/best/conv3d", 404)
    page(client, "/?operator=conv3d", 404)


def test_static_files_of_the_pages_are_served_and_cached(client: TestClient) -> None:
    html = page(client, "/")
    links = re.findall(r'(?:href|src)="(/static/[^"]+)"', html)
    assert len(links) == 7
    for link in links:
        answer = client.get(link)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        known = {"if-none-match": answer.headers["etag"]}
        assert client.get(link, headers=known).status_code == 304
    assert client.get("/static/app.js").headers["cache-control"] == "no-cache"
    assert client.get("/static/../pages.py").status_code == 404
    for headers in ({}, HTML):
        gone = client.get("/static/nothing.js", headers=headers)
        assert "nothing.js" in problem(gone, 404, "route-not-found")["detail"]
    assert not re.findall(r'(?:href|src|action)="(?!/|#)', html)


def test_vendored_files_are_as_published() -> None:
    listed = (assets.ROOT / "vendor" / "VERSIONS.txt").read_text()
    for sha256, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", listed, re.MULTILINE):
        assert sha256.startswith(assets.assets()[f"vendor/{name}"].digest)


def test_page_shows_no_negative_age_if_the_database_clock_is_ahead(
    client: TestClient, engine: Engine
) -> None:
    client.post("/jobs", json={"operator": "conv1d", "workload": {"M": 77, "N": 7}})
    with writing(engine) as connection:
        connection.execute(update(jobs).values(created_at=jobs.c.created_at + 300))
    assert ">0 s ago</time>" in page(client, "/")


@pytest.mark.parametrize("body", ["workload.M=64&workload.M=65", "label=%ff%fe"])
def test_form_with_repeated_fields_or_invalid_utf_8_gets_400(
    client: TestClient, engine: Engine, body: str
) -> None:
    answer = client.post(
        "/ui/jobs",
        content=f"operator=conv1d&workload.N=3&{body}",
        headers={
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
        },
    )
    assert (answer.status_code, "send it from its page" in answer.text) == (400, True)
    assert not queue.list_jobs(engine).items

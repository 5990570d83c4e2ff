"""Pages of models: their content, with everything escaped."""

import re
from html import unescape
from typing import Any

import pytest
from service_rows import tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient
from test_api_models import IMAGE, SIGNAL, ordered
from test_api_pages import page, send

from api.routes.html import models as routes
from db import queue


def text(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", " ", html)).split())


def figure(html: str, name: str) -> str:
    """Return the text of a figure on a page, by its name."""
    found = re.search(f'<div class="figure"><span>{name}</span>(.*?)</div>', html, re.DOTALL)
    assert found, name
    return text(found[1])


def row(html: str, place: int) -> list[str]:
    """Return the texts of the cells of a layer's row."""
    body = html[html.index('id="layers-scroll"') :]
    cells = re.findall(
        "<td.*?</td>", re.findall("<tr>(.*?)</tr>", body, re.DOTALL)[place + 1], re.S
    )
    return [text(cell) for cell in cells]


@pytest.fixture
def model(client: TestClient, engine: Engine) -> dict[str, Any]:
    """A model of which one layer is tuned and the other waits."""
    baselines = [
        {"name": "pytorch NCHW", "time_us": 12.0, "speedup": 4.0},
        {"name": "pytorch NHWC", "time_us": 1.0, "speedup": 0.3},
    ]
    tuned(engine, IMAGE["operator"], IMAGE["workload"], time_us=3.0, baselines=baselines)
    return ordered(client, trials=2, name="net <b>", patience=7)


def test_model_list_links_to_each_model(client: TestClient, model: dict[str, Any]) -> None:
    html = page(client, "/ui/models")
    assert '<a href="/ui/models" aria-current="page">Models</a>' in html
    assert f'href="/ui/models/{model["id"]}">net &lt;b&gt;</a>' in html
    assert "1 of 2" in text(html)
    assert "tuner model tune" not in html


def test_empty_model_list_shows_the_command_to_order_a_model(client: TestClient) -> None:
    assert "tuner model tune layers.json" in page(client, "/ui/models")


def test_model_list_is_split_into_pages(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "LISTED", 2)
    for n in range(3):
        ordered(client, name=f"net {n}")
    first = page(client, "/ui/models")
    older = re.search('id="older" href="([^"]+)"', first)
    assert older
    assert "net 2" in first and "net 0" not in first
    assert "net 0" in page(client, unescape(older[1]))


def test_model_page_shows_layers_gain_and_reason_for_waiting(
    client: TestClient, model: dict[str, Any]
) -> None:
    html = page(client, f"/ui/models/{model['id']}")
    assert "<h1>net &lt;b&gt;</h1>" in html
    assert "<noscript><meta http-equiv" in html
    assert figure(html, "State") == "queued"
    assert figure(html, "Layers") == "1 of 2 0 of 4 trials"
    assert figure(html, "Gain so far") == "4.00 × 9.00 µs, PyTorch 36.0 µs"
    assert figure(html, "Time left, about") == "–"
    assert "Since the order" in html  # none of its jobs has run
    assert "over 1 of 2 layers" in text(html)
    assert "Patience 7" in text(html)
    assert "no worker is alive" in html
    assert row(html, 0)[0] == "queued"
    assert row(html, 0)[2:] == ["1", "–", "–", "–", "–", "–"]
    assert row(html, 1)[2:3] + row(html, 1)[4:] == ["3", "3.00", "pytorch NCHW", "12.0", "4.00 ×"]
    jobs = re.findall(r'href="(/ui/jobs/[0-9a-f]{32})"', html)
    assert jobs == [f"/ui/jobs/{layer['job']}" for layer in model["layers"]]
    assert page(client, jobs[0])


def test_model_page_refreshes_itself_until_the_model_ends(
    client: TestClient, engine: Engine, model: dict[str, Any]
) -> None:
    """The live part of the page reloads itself until the model has ended."""
    live = f"/ui/models/{model['id']}/live"
    job = queue.claim(engine, "worker-1", ["cuda"])
    assert job is not None
    queue.progress(
        engine, job.id, job.attempt,
        measured=1, ok=1, failed=0, best=None, eta_seconds=30.0, device_id=None,
    )  # fmt: skip
    html = page(client, live)
    assert "<h1>" not in html
    assert f'hx-get="{live}"' in html
    assert figure(html, "State") == "running"
    assert figure(html, "Time left, about") == "30 s"
    assert "no worker is alive" not in html
    queue.finish(engine, job.id, job.attempt, "succeeded")
    ended = page(client, live)
    assert "hx-get" not in ended and "Cancel" not in ended
    assert figure(ended, "State") == "succeeded"
    assert figure(ended, "Gain").startswith("4.00 ×")
    assert "http-equiv" not in page(client, f"/ui/models/{model['id']}")


def test_a_model_is_cancelled_from_its_page(
    client: TestClient, engine: Engine, model: dict[str, Any]
) -> None:
    here = f"/ui/models/{model['id']}"
    assert "Cancel the model net &lt;b&gt;" in page(client, here)
    assert send(client, f"{here}/cancel", {}, **{"sec-fetch-site": "cross-site"}).status_code == 400
    answer = send(client, f"{here}/cancel", {})
    assert (answer.status_code, answer.headers["location"]) == (303, here)
    assert figure(page(client, here), "State") == "cancelled"
    again = send(client, f"{here}/cancel", {})
    assert again.status_code == 409
    assert "was already cancelled" in again.text
    [job] = [each for each in queue.list_jobs(engine).items if each.state == "cancelled"]
    assert job.workload["M"] == SIGNAL["workload"]["M"]  # type: ignore[index]


def test_model_page_marks_a_gain_below_1_as_slower(client: TestClient, engine: Engine) -> None:
    baselines = [{"name": "pytorch", "time_us": 1.0, "speedup": 0.5}]
    tuned(engine, "conv1d", {"M": 16384, "N": 32}, time_us=2.0, baselines=baselines)
    model = ordered(client, workloads=[SIGNAL], trials=2)
    html = page(client, f"/ui/models/{model['id']}")
    assert '<strong class="slower">0.5 ×</strong>' in html
    assert figure(html, "Gain").startswith("0.5 ×")


def test_page_of_an_unknown_model_is_404(client: TestClient) -> None:
    assert "There is no such thing" in page(client, "/ui/models/nothing", 404)

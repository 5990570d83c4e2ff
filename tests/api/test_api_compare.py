"""Comparisons: two jobs on one page, and each job with its fastest peer in the list."""

import re

import pytest
from service_rows import GPU, new_trial, running, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db import queue
from db.fleet import devices
from db.results import trials

HTML = {"accept": "text/html,*/*"}
SHAPE = {"M": 100, "N": 3}


def page(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == status, answer.text
    return answer.text


@pytest.fixture
def pair(engine: Engine) -> tuple[queue.Job, queue.Job]:
    """Two jobs of one workload; the second is running, and its third trial is its fastest."""
    first = tuned(engine, "conv1d", SHAPE)
    second = running(engine, "conv1d", SHAPE, search="random", label="<again>")
    device = devices.upsert_device(engine, GPU)
    times = (9.0, 8.0, 2.5, 4.0)
    new = [new_trial(device, 500 + n, time_us=time) for n, time in enumerate(times)]
    trials.add(engine, second.id, second.attempt, new)
    return first, second


def test_job_list_shows_the_speedup_over_the_fastest_peer(
    client: TestClient, pair: tuple[queue.Job, queue.Job]
) -> None:
    told = re.findall(r'data-label="× fastest peer">(.*?)</td>', page(client, "/"))
    assert told == ["", '<span title="numpy: 300 µs">200</span>']


def test_job_page_offers_only_jobs_of_its_workload_for_comparison(
    client: TestClient, engine: Engine, pair: tuple[queue.Job, queue.Job]
) -> None:
    first, second = pair
    other = running(engine, "conv1d", {"M": 101, "N": 3})
    offered = page(client, f"/ui/jobs/{first.id}")
    assert f'<option value="{second.id}">&lt;again&gt;: random' in offered
    assert other.id not in offered
    assert "data-beside" not in offered
    assert "Beside another job" not in page(client, f"/ui/jobs/{other.id}")


def test_job_page_compares_two_jobs(client: TestClient, pair: tuple[queue.Job, queue.Job]) -> None:
    first, second = pair
    told = page(client, f"/ui/jobs/{first.id}?beside={second.id}")
    assert f'data-beside="/ui/jobs/{second.id}/curve"' in told
    assert f'<option value="{second.id}" selected>' in told
    rows = re.findall(r'data-label="At trial">(.*?)</td>', told)
    assert rows[1] == "3"
    assert f'href="/ui/jobs/{second.id}?beside={first.id}"' in told


def test_job_can_be_compared_with_a_job_of_another_workload(
    client: TestClient, engine: Engine, pair: tuple[queue.Job, queue.Job]
) -> None:
    other = running(engine, "conv1d", {"M": 101, "N": 3})
    told = page(client, f"/ui/jobs/{pair[0].id}?beside={other.id}")
    assert f'<option value="{other.id}" selected>' in told


@pytest.mark.parametrize("beside", ["0" * 32, "nothing", "%00"])
def test_comparison_with_an_unknown_job_gets_404(
    client: TestClient, pair: tuple[queue.Job, queue.Job], beside: str
) -> None:
    assert "There is no such thing" in page(client, f"/ui/jobs/{pair[0].id}?beside={beside}", 404)

"""From an order over HTTP to the library in a user's program, with a real service and worker."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from processes import SECONDS, Worker, until

from tests.tuner.service_process import ROOT, Service

PLAIN = (ROOT / "tests/tuner/plain_program.txt").read_text()
PLAIN_SHAPE, PLAIN_QUERY = {"M": 16384, "N": 32}, "/best/conv1d?M=16384&N=32&target=cpu"
HEAD = PLAIN.partition("x = np.random")[0]
TAILS = {
    "conv1d": PLAIN.removeprefix(HEAD),
    "valid": """
x, w = np.random.default_rng(0).standard_normal(40000).astype("f4"), np.ones(1023, "f4") / 1023
b, r = np.array([0.1], "f4"), np.linspace(-1, 1, 40000 - 1023 + 1, dtype="f4")
y = np.empty(40000 - 1023 + 1, "f4")
convolve(x, w, b, r, y)
print("error:", np.abs(y - np.maximum(np.correlate(x, w, "valid") + b + r, 0)).max())
""",
    "depthwise": """
x = np.random.default_rng(0).standard_normal((3, 4, 16, 32)).astype("f4")
w = np.ones((4, 1, 7, 7), "f4") / 49
y = np.empty((3, 4, 16, 32), "f4")
convolve(x, w, y)
padded = np.pad(x, ((0, 0), (0, 0), (3, 3), (3, 3)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (7, 7), axis=(2, 3))
print("error:", np.abs(y - windows.mean((-2, -1))).max())
""",
}
ORDERS: dict[str, dict[str, Any]] = {
    "conv1d": {"operator": "conv1d", "workload": PLAIN_SHAPE, "trials": 8},
    "valid": {
        "operator": "conv1d",
        "workload": {
            "M": 40000,
            "N": 1023,
            "mode": "valid",
            "kind": "correlate",
            "bias": True,
            "residual": True,
            "activation": "relu",
        },
        "trials": 3,
    },
    "depthwise": {
        "operator": "depthwise_conv2d",
        "workload": {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7},
        "trials": 4,
        "baselines": "none",
    },
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def jobs(service: Service, http: httpx2.Client) -> dict[str, dict[str, Any]]:
    """The jobs as they were ordered, before any worker has started."""
    ordered = {name: http.post("/jobs", json=order) for name, order in ORDERS.items()}
    assert [answer.status_code for answer in ordered.values()] == [201] * 3
    return {name: answer.json() for name, answer in ordered.items()}


@pytest.fixture(scope="module")
def worker(
    service: Service, jobs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    started = Worker(service.engine.url.render_as_string(), tmp_path_factory.mktemp("worker"))
    yield started
    assert started.stop()[0] == 0


def ended(http: httpx2.Client, job: dict[str, Any]) -> dict[str, Any]:
    """Poll the job until it has ended, and return it."""

    def polled() -> dict[str, Any]:
        now: dict[str, Any] = http.get(job["links"]["self"]).json()
        return now if now["state"] not in ("queued", "running") else {}

    return until(polled, 2 * SECONDS, pause=0.2)


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ORDERS)
def test_library_ordered_over_http_works_in_a_plain_program(
    jobs: dict[str, dict[str, Any]],
    worker: Worker,
    service: Service,
    http: httpx2.Client,
    tmp_path: Path,
    name: str,
) -> None:
    order = ORDERS[name]
    job = ended(http, jobs[name])
    assert (job["state"], job["error"]) == ("succeeded", None)
    assert job["trials"]["measured"] == job["trials"]["ok"] == order["trials"]
    path = f"/best/{order['operator']}?{urlencode(order['workload'])}&target=cpu"
    best = http.get(path).json()
    assert (best["match"], best["job"], best["trials"]) == ("exact", job["id"], order["trials"])
    assert 0 < best["time_us"] == best["timing"]["warm"]["median_us"] == job["best"]["time_us"]
    assert best["max_error"] < 1e-5
    names = {baseline["name"] for baseline in best["baselines"]}
    assert names >= {"default", "naive"}
    assert name == "depthwise" or any(each.startswith("numpy.") for each in names)
    assert set(best["artifacts"]) == {"library", "source", "manifest", "record", "signature"}
    assert None not in best["artifacts"].values()

    program = HEAD.replace("http://localhost:8000", service.url).replace(PLAIN_QUERY, path)
    assert service.url in program
    assert path in program
    said = run(program + TAILS[name], tmp_path)
    assert float(said.removeprefix("error:")) < 1e-4


def test_equal_order_is_answered_with_the_finished_job(
    jobs: dict[str, dict[str, Any]], worker: Worker, http: httpx2.Client
) -> None:
    first = ended(http, jobs["conv1d"])
    again = http.post("/jobs", json=ORDERS["conv1d"])
    assert (again.status_code, again.json()["id"]) == (200, first["id"])


def test_a_cancel_stops_the_job_within_one_trial(worker: Worker, http: httpx2.Client) -> None:
    workload = {"M": 256, "N": 4}
    order = {"operator": "conv1d", "workload": workload, "trials": 100_000, "search": "random"}
    job = http.post("/jobs", json=order).json()

    def trials() -> list[dict[str, Any]]:
        page: list[dict[str, Any]] = http.get(f"{job['links']['self']}/trials").json()["items"]
        return page

    until(trials, 2 * SECONDS, pause=0.1)
    answer = http.post(job["links"]["cancel"])
    asked = time.time()
    assert answer.status_code == 202
    stopped = ended(http, job)
    assert time.time() - asked < 10
    assert stopped["state"] == "cancelled"
    kept = trials()
    late = [each for each in kept if datetime.fromisoformat(each["created_at"]).timestamp() > asked]
    assert len(late) <= 1
    assert stopped["trials"]["measured"] == len(kept)
    assert http.post(job["links"]["cancel"]).status_code == 409

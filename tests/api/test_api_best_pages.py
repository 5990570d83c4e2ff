"""Facts about a best on the pages besides its time: faster peers, noise, call, roofline."""

import re
from html import unescape
from typing import Any

import pytest
from service_rows import GPU, HOST, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

SHAPE = {"M": 100, "N": 3}
LIMITS = {"limits": {**HOST["limits"], "peak_flops": 1e11, "peak_bandwidth": 1e10}}


def summary(time: float) -> dict[str, Any]:
    return {"median_us": time, "p10_us": 0.9 * time, "p90_us": 1.2 * time, "samples": 20}


def read(client: TestClient, path: str) -> str:
    """Return the words of a page, without markup."""
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def pages_of(client: TestClient, engine: Engine, **best: Any) -> tuple[str, str, str]:
    """Store a best; return the words of its page, of the list of bests and of its job's page."""
    job = tuned(engine, "conv1d", SHAPE, HOST | LIMITS, **best)
    paths = ("/ui/best/conv1d?M=100&N=3", "/ui/best", f"/ui/jobs/{job.id}")
    one, listed, of_job = (read(client, path) for path in paths)
    return one, listed, of_job


def test_pages_name_a_faster_peer(client: TestClient, engine: Engine) -> None:
    rows = [{"name": "pytorch NHWC", "time_us": 209.0, "speedup": 0.43}]
    one, listed, of_job = pages_of(client, engine, time_us=487.0, baselines=rows)
    for text in (one, of_job):
        assert "pytorch NHWC was faster: 209 µs against 487 µs" in text
    assert "pytorch NHWC , 209 µs" in listed
    assert "ours" not in listed


def test_best_page_dates_peer_times_of_an_earlier_job(client: TestClient, engine: Engine) -> None:
    row = {"name": "numpy", "time_us": 900.0, "speedup": 1.8}
    one, _, _ = pages_of(client, engine, time_us=487.0, baselines=[row])
    assert "timed by an earlier job" not in one
    dated = row | {"measured_at": "2026-03-01T10:00:00+00:00"}
    one, _, _ = pages_of(client, engine, time_us=480.0, baselines=[dated])
    assert "timed by an earlier job with the same versions, on 2026-03-01." in one


def test_pages_name_no_peer_if_none_is_faster(client: TestClient, engine: Engine) -> None:
    one, listed, of_job = pages_of(client, engine)
    assert "was faster" not in one + of_job
    assert "ours" in listed


def test_peer_called_from_python_is_compared_with_our_call(
    client: TestClient, engine: Engine
) -> None:
    """A peer that was timed by calls from Python is compared with our call, not with our kernel."""
    timing = {"warm": summary(0.015), "call": summary(2.8)}
    rows = [{"name": "numpy", "time_us": 0.5, "speedup": 0.18, "level": "call"}]
    best = {"time_us": 0.015, "timing": timing, "baselines": rows, "threads": 2}
    one, listed, of_job = pages_of(client, engine, **best)
    said = "numpy was faster: 0.5 µs against 2.80 µs, each called from Python"
    assert said in one and said in of_job
    assert "Called from Python 2.80 µs" in one
    assert "Threads 2" in one
    assert "direct 2 0.015" in listed
    assert "numpy, called 0.5 µs · 0.18×" in one
    assert "0.015 µs" in one


def test_pages_report_noise_with_advice(client: TestClient, engine: Engine) -> None:
    noise = {"quiet": False, "spread": 0.38, "load": 3.7, "reason": "others ran; tune it again"}
    timing = {"warm": summary(1.5), "noise": noise}
    one, listed, of_job = pages_of(client, engine, timing=timing)
    for text in (one, of_job):
        assert "Not a quiet machine: others ran; tune it again" in text
    assert "noisy" in listed


def test_pages_do_not_mention_a_quiet_machine(client: TestClient, engine: Engine) -> None:
    noise = {"quiet": True, "spread": 0.01, "load": 0.1, "reason": None}
    for text in pages_of(client, engine, timing={"warm": summary(1.5), "noise": noise}):
        assert "quiet machine" not in text and "noisy" not in text


def test_pages_of_an_old_best_show_no_facts_that_it_lacks(
    client: TestClient, engine: Engine
) -> None:
    one, _, of_job = pages_of(client, engine, timing={"warm": {"median_us": 1.5}, "cold": None})
    assert "Threads" not in one and "Called from Python" not in one
    assert "Finalists" not in of_job


def test_best_faster_than_the_roofline_floor_is_explained_by_the_cache(
    client: TestClient, engine: Engine
) -> None:
    beyond = {"bound": "memory", "floor_us": 9.0, "fraction": 1.61}
    one, listed, _ = pages_of(client, engine, roofline=beyond)
    assert "Faster than memory allows (9.00 µs): its data is in the cache." in one
    assert "161%" not in one + listed
    assert "in the cache" in listed


@pytest.mark.parametrize("winner", [0, 1])
def test_job_page_lists_the_finalists_and_marks_the_winner(
    client: TestClient, engine: Engine, winner: int
) -> None:
    """The finalist that became the best is marked as the winner, though another may be first.

    A job may deliver two bests, and the shown one may be the second.
    """
    finalists = [
        {"name": name, "config": {"template": "direct", "threads": n}, **summary(time)}
        for n, (name, time) in enumerate([("convtune", 1.5), ("stored best", 1.65)])
    ]
    timing = {"warm": summary(1.5), "finalists": finalists}
    config = finalists[winner]["config"]
    _, _, of_job = pages_of(client, engine, timing=timing, config=config)
    assert "Finalists" in of_job
    first, second = (" winner" * (winner == n) for n in (0, 1))
    assert re.search(rf"convtune{first} 1.500 1.00 1.350 to 1.800 20 template=direct", of_job)
    assert re.search(rf"stored best{second} 1.650 1.10 1.485 to 1.980 20 template=direct", of_job)


def test_job_page_says_that_another_job_has_the_best_now(
    client: TestClient, engine: Engine
) -> None:
    earlier = tuned(engine, "conv1d", SHAPE, time_us=2.0)
    tuned(engine, "conv1d", SHAPE, time_us=1.5)
    text = read(client, f"/ui/jobs/{earlier.id}")
    assert "The best of this shape on this device is now that of another job : 1.50 µs" in text


def test_pages_show_the_arch_beside_the_device_name(client: TestClient, engine: Engine) -> None:
    job = tuned(engine, "conv1d", SHAPE)
    arch = GPU["arch"]
    for path in ("/", "/ui/best", "/ui/best/conv1d?M=100&N=3"):
        assert f"Test GPU ({arch})" in read(client, path), path
    assert f"Test GPU {arch}" in read(client, f"/ui/jobs/{job.id}")


def test_list_of_bests_links_to_a_slower_best_on_fewer_threads(
    client: TestClient, engine: Engine
) -> None:
    """The list links each best of a workload with its own number of threads."""
    tuned(engine, "conv1d", SHAPE, HOST, time_us=2.0, threads=2)
    tuned(engine, "conv1d", SHAPE, HOST, time_us=5.0, threads=1)
    listed = client.get("/ui/best", headers={"accept": "text/html"}).text
    links = [unescape(link) for link in re.findall('href="(/ui/best/[^"]+)"', listed)]
    one, two = (read(client, link) for link in sorted(links, key=lambda link: link[-9:]))
    assert "Threads 1" in one and "Warm 5.00 µs" in one
    assert "Threads 2" in two and "Warm 2.00 µs" in two
    assert 'target="cpu", threads=1)' in one.replace(" ", "").replace('",', '", ')


def test_list_of_bests_links_to_a_slower_best_on_several_threads(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", SHAPE, HOST, time_us=9.0, threads=2)
    tuned(engine, "conv1d", SHAPE, HOST, time_us=5.0, threads=1)
    listed = client.get("/ui/best", headers={"accept": "text/html"}).text
    links = [unescape(link) for link in re.findall('href="(/ui/best/[^"]+)"', listed)]
    one, two = (read(client, link) for link in sorted(links, key=lambda link: link[-9:]))
    assert "Threads 1" in one and "Warm 5.00 µs" in one
    assert "Threads 2" in two and "Warm 9.00 µs" in two

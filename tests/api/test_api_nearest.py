"""match=nearest: the closest tuned shape lends its configuration, and nothing else."""

from typing import Any
from urllib.parse import urlencode

import pytest
from problem_shape import problem
from service_rows import CUDA, GPU, HOST, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db.fleet.devices import upsert_device
from templates import operator, templates_for


def nearest(client: TestClient, name: str = "conv1d", **query: Any) -> Any:
    """Ask GET /best with match=nearest, which must succeed, and return the answer."""
    response = client.get(f"/best/{name}?{urlencode(query | {'match': 'nearest'})}")
    assert response.status_code == 200, response.text
    return response.json()


def test_nearest_answer_names_the_closest_shape_and_claims_no_time(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", {"M": 1024, "N": 32}, time_us=1.1)
    close = tuned(engine, "conv1d", {"M": 15000, "N": 32}, time_us=1.6)
    tuned(engine, "conv1d", {"M": 16384, "N": 512}, time_us=9.9)
    best = nearest(client, M=16384, N=32)
    assert (best["match"], best["verified"]) == ("nearest", False)
    assert best["verify"] == {
        "method": "POST",
        "url": "/jobs/nearest",
        "body": {"operator": "conv1d", "workload": best["workload"], "target": "auto"},
    }
    assert best["neighbour"] == {"workload": close.workload, "time_us": 1.6}
    assert (best["workload"]["M"], best["job"]) == (16384, close.id)
    unclaimed = ("time_us", "timing", "gflops", "roofline", "baselines", "max_error")
    assert [best[name] for name in unclaimed] == [None] * 6
    assert set(best["artifacts"].values()) == {None}
    assert best["devices"] == [best["device"] | {"time_us": None}]


def test_nearest_configuration_is_valid_for_the_requested_shape(
    client: TestClient, engine: Engine
) -> None:
    shape = {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7}
    tuned(engine, "depthwise_conv2d", shape | {"W": 64})
    best = nearest(client, "depthwise_conv2d", **shape)
    workload = operator("depthwise_conv2d").workload.model_validate(shape)
    spaces = {t.name: t.space(workload, CUDA) for t in templates_for(workload, CUDA)}
    assert best["config"] in spaces[best["template"]]


def test_distance_counts_an_extent_that_the_key_leaves_out(
    client: TestClient, engine: Engine
) -> None:
    """The key leaves out batch 1, the default; it still is closer to batch 4 than batch 64 is."""
    signals = {"M": 512, "N": 9, "C": 8}
    one = tuned(engine, "conv1d", signals)
    tuned(engine, "conv1d", signals | {"B": 64})
    assert nearest(client, **signals, B=4)["job"] == one.id
    assert "B" not in one.workload_key


def test_nearest_returns_the_exact_match_if_there_is_one(
    client: TestClient, engine: Engine
) -> None:
    job = tuned(engine, "conv1d", {"M": 100, "N": 3})
    best = nearest(client, M=100, N=3)
    assert (best["match"], best["job"], best["time_us"]) == ("exact", job.id, 1.5)
    assert (best["verified"], best["verify"], best["neighbour"]) == (True, None, None)


def test_nearest_answer_names_all_devices_of_the_neighbour(
    client: TestClient, engine: Engine
) -> None:
    slow = tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, time_us=30.0)
    fast = tuned(engine, "conv1d", {"M": 4096, "N": 32}, GPU, time_us=1.3)
    best = nearest(client, M=4000, N=32)
    assert best["job"] == fast.id
    assert [each["name"] for each in best["devices"]] == ["Test GPU", "Test CPU"]
    assert nearest(client, M=4000, N=32, target="cpu")["job"] == slow.id


@pytest.mark.parametrize(
    "other",
    [
        {"mode": "valid"},
        {"kind": "correlate"},
        {"max_error": 1e-3},
    ],
)
def test_shape_with_another_mode_kind_or_error_limit_lends_nothing(
    client: TestClient, engine: Engine, other: dict[str, Any]
) -> None:
    tuned(engine, "conv1d", {"M": 4096, "N": 32} | other)
    document = problem(client.get("/best/conv1d?M=4000&N=32&match=nearest"), 404, "not-tuned")
    assert "no tuned shape can lend" in document["detail"]


def test_shape_with_another_stride_lends_nothing(client: TestClient, engine: Engine) -> None:
    shape = {"B": 1, "C": 8, "H": 32, "W": 32, "K": 3}
    tuned(engine, "depthwise_conv2d", shape | {"stride": 2})
    query = urlencode(shape | {"C": 9, "match": "nearest"})
    problem(client.get(f"/best/depthwise_conv2d?{query}"), 404, "not-tuned")
    tuned(engine, "depthwise_conv2d", shape)
    assert nearest(client, "depthwise_conv2d", **shape | {"C": 9})["workload"]["stride"] == 1


def test_neighbour_with_a_stricter_error_limit_may_lend(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 4096, "N": 32})
    assert nearest(client, M=4000, N=32, max_error=1e-2)["neighbour"] is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"template": "direct", "threads": 7}},
        {"template": "gone"},
        {"template_version": 0},
    ],
)
def test_neighbour_whose_configuration_is_invalid_is_passed_over(
    client: TestClient, engine: Engine, changes: dict[str, Any]
) -> None:
    tuned(engine, "conv1d", {"M": 4000, "N": 32}, **changes)
    far = tuned(engine, "conv1d", {"M": 512, "N": 32})
    assert nearest(client, M=4001, N=32)["job"] == far.id


def test_device_with_unreadable_limits_lends_nothing(client: TestClient, engine: Engine) -> None:
    """A device whose stored limits this release can't read lends nothing."""
    strange = GPU | {"name": "Strange GPU"}
    job = tuned(engine, "conv1d", {"M": 4000, "N": 32}, strange)
    assert nearest(client, M=4001, N=32)["job"] == job.id
    upsert_device(engine, strange | {"limits": {"kind": "cuda", "flux": 9}})
    problem(client.get("/best/conv1d?M=4001&N=32&match=nearest"), 404, "not-tuned")

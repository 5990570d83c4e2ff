"""Whatever is sent to POST /jobs, the answer is a job or a problem; a problem writes nothing."""

import json
from typing import Any

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from service_rows import rows
from sqlalchemy import Engine
from starlette.testclient import TestClient

from tests.hostile import mangled, mutated

JSON = {"content-type": "application/json"}
GOOD: list[dict[str, Any]] = [
    {"operator": "conv1d", "workload": {"M": 100, "N": 3, "mode": "same", "max_error": 1e-4}},
    {"operator": "depthwise_conv2d", "workload": {"B": 1, "C": 2, "H": 8, "W": 9, "K": 3}},
]
REFUSAL = 20_000
"""Upper limit for the size of a refusal in bytes, however much was sent."""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda roll: values if roll == 0 else good)


small = mostly(st.integers(-1, 40))
shapes = st.fixed_dictionaries(
    {"M": small, "N": small},
    optional={"mode": mostly(st.sampled_from(["full", "valid"])), "max_error": mostly(st.floats())},
)
images = st.fixed_dictionaries(dict.fromkeys("BCHWK", small), optional={"stride": small})
rest = {
    "trials": mostly(st.integers(1, 100_000)),
    "search": mostly(st.sampled_from(["xgb", "grid"])),
    "target": mostly(st.sampled_from(["auto", "cuda"])),
    "budget_seconds": mostly(st.floats(1, 1e6)),
    "seed": mostly(st.integers(0, 2**31)),
    "patience": mostly(st.integers(0, 100)),
    "warm_start": mostly(st.booleans()),
}
orders = st.one_of(
    st.fixed_dictionaries({"operator": mostly(st.just(name)), "workload": shape}, optional=rest)
    for name, shape in (("conv1d", shapes), ("depthwise_conv2d", images))
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(orders | values)
@example({"operator": "conv1d", "workload": {"M": 1, "N": 1}, "budget_seconds": 1})
@example({"operator": "conv1d", "workload": {"M": 1, "N": 1}, "budget_seconds": 5e-324})
@example({"operator": "conv1d\ud800", "workload": {"M\0": 1}})
def test_random_order_gets_a_job_or_a_problem(
    client: TestClient, engine: Engine, body: Any
) -> None:
    before = rows(engine)
    response = client.post(
        "/jobs", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    event(f"status {response.status_code}")
    if response.status_code in {200, 201}:
        job = response.json()
        assert client.get(response.headers["location"]).json() == job
        added = rows(engine)["jobs"] - before["jobs"]
        assert added == (1 if response.status_code == 201 else 0)
        return
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]
    assert rows(engine) == before


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/jobs", "/jobs/nearest"]),
    st.sampled_from(GOOD).flatmap(
        lambda order: (
            mutated(order).map(lambda changed: json.dumps(changed).encode())
            | mangled(json.dumps(order).encode())
        )
    ),
)
@example("/jobs", b'{"%s": 1}' % (b"x" * 60_000))
@example("/jobs", b'{"operator": "conv1d"%s}' % b"".join(b', "%d": 1' % n for n in range(4000)))
@example("/jobs/nearest", b'{"operator": "%s"}' % (b"\\ud800" * 9000))
@example("/jobs", b'{"operator": "conv1d", "workload": {"M": 1%s}}' % (b"0" * 4200))
@example("/jobs", b'{"operator": "conv1d", "operator": "conv1d", "workload": {"M": 9, "N": 1}}')
def test_mutated_order_gets_a_job_or_a_short_problem(
    client: TestClient, engine: Engine, path: str, body: bytes
) -> None:
    before = rows(engine)
    answer = client.post(path, content=body, headers=JSON)
    if answer.status_code in {200, 201}:
        assert client.get(answer.headers["location"]).json() == answer.json()
        return
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert len(answer.content) < REFUSAL
    assert rows(engine) == before

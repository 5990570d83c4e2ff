"""GET /ladders: measured ladders, and the answer if there is none."""

from typing import Any

from problem_shape import problem
from service_rows import GPU, HOST
from sqlalchemy import Engine
from starlette.testclient import TestClient

from api.schemas.ladders import LadderView
from db.fleet import devices
from db.results import ladders
from templates import operator

EXAMPLE: dict[str, Any] = LadderView.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index,call-overload]


def climbed(engine: Engine, fingerprint: dict[str, Any], name: str = "conv1d") -> None:
    """Store a ladder of the operator's example workload on a device."""
    workload = operator(name).workload.model_validate(operator(name).example)
    new = ladders.NewLadder(
        operator=name,
        workload_key=workload.key,
        workload=workload.model_dump(),
        device_id=devices.upsert_device(engine, fingerprint).id,
        rows=EXAMPLE["rows"],
        documents=EXAMPLE["documents"],
        clocks=EXAMPLE["clocks"],
        versions=EXAMPLE["versions"],
    )
    ladders.record(engine, new)


def test_ladder_has_its_workload_device_and_rows(client: TestClient, engine: Engine) -> None:
    climbed(engine, GPU)
    listing = client.get("/ladders/conv1d").json()
    (ladder,) = listing["items"]
    assert listing["next_cursor"] is None
    assert ladder["workload"]["M"] == 16384
    assert ladder["device"] == {"kind": "cuda", "name": "Test GPU", "arch": "sm_90"}
    for field in ("rows", "documents", "clocks", "versions"):
        assert ladder[field] == EXAMPLE[field]
    assert ladder["climbed_at"].endswith("Z")


def test_each_device_has_a_ladder_of_its_own(client: TestClient, engine: Engine) -> None:
    for fingerprint in (GPU, HOST, GPU):
        climbed(engine, fingerprint)
    first = client.get("/ladders/conv1d?limit=1").json()
    second = client.get(f"/ladders/conv1d?limit=1&cursor={first['next_cursor']}").json()
    names = [page["items"][0]["device"]["name"] for page in (first, second)]
    assert names == ["Test GPU", "Test CPU"]
    assert second["next_cursor"] is None
    (one,) = client.get("/ladders/conv1d?target=cpu").json()["items"]
    assert one["device"]["name"] == "Test CPU"


def test_404_of_a_ladder_names_the_command_that_climbs_it(
    client: TestClient, engine: Engine
) -> None:
    climbed(engine, GPU)
    document = problem(client.get("/ladders/depthwise_conv2d"), 404, "not-climbed")
    assert "run: tuner ladder depthwise_conv2d " in document["detail"]
    document = problem(client.get("/ladders/conv1d?target=cpu"), 404, "not-climbed")
    assert "run: tuner ladder conv1d --target cpu " in document["detail"]


def test_invalid_ladder_query_is_refused(client: TestClient) -> None:
    document = problem(client.get("/ladders/conv3d"), 404, "unknown-operator")
    assert "conv1d, depthwise_conv2d" in document["detail"]
    problem(client.get("/ladders/conv1d?target=tpu"), 422, "invalid-request", "target")
    problem(client.get("/ladders/conv1d?limit=0"), 422, "invalid-request", "limit")
    problem(client.get("/ladders/conv1d?cursor=!"), 422, "invalid-cursor", "cursor")

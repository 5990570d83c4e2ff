"""POST /jobs/nearest: a job that builds, checks and times the neighbour's configuration."""

from typing import Any

import pytest
from problem_shape import problem
from service_rows import GPU, HOST, SIGNER, files, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db import queue
from db.fleet import devices
from db.records import listed
from db.results import best
from templates import operator, template_names

ASKED: dict[str, Any] = {"operator": "conv1d", "workload": {"M": 4000, "N": 32}}
QUERY = "/best/conv1d?M=4000&N=32"


def verified(engine: Engine, job: dict[str, Any], **changes: Any) -> None:
    """End the job as a worker does: its best has the one configuration that it lists."""
    [lent] = listed.of_job(engine, job["id"])
    verified_as(engine, job, lent.config, lent.template_version, **changes)


def verified_as(
    engine: Engine,
    job: dict[str, Any],
    config: dict[str, Any],
    template_version: int,
    fingerprint: dict[str, Any] = GPU,
    threads: int | None = None,
) -> None:
    """Claim the job and end it with a best of this configuration."""
    held = queue.claim(engine, "worker-1", ["cpu", "cuda"])
    assert held is not None
    assert held.id == job["id"]
    new = best.NewBest(
        operator="conv1d",
        workload_key=held.workload_key,
        workload=held.workload,
        device_id=devices.upsert_device(engine, fingerprint).id,
        threads=threads,
        template=config["template"],
        template_version=template_version,
        tvm_version="0.27.0",
        config=config,
        time_us=1.4,
        timing={"warm": {"median": 1.4}},
        gflops=1.0,
        roofline={},
        max_error=1e-7,
        baselines=[],
        trials_measured=1,
        versions={},
    )
    best.finish_with_bests(
        engine, held.id, held.attempt, [best.BestWithFiles(new, files(held.id))], SIGNER
    )


def test_nearest_answer_is_verified_once_its_job_has_succeeded(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", {"M": 4096, "N": 32}, time_us=1.6)
    guess = client.get(f"{QUERY}&match=nearest").json()
    response = client.post(guess["verify"]["url"], json=guess["verify"]["body"])
    assert response.status_code == 201
    job = response.json()
    assert (job["search"], job["target"], job["trials"]["requested"]) == ("neighbour", "cuda", 1)
    assert response.headers["location"] == job["links"]["self"]
    assert client.get(f"{QUERY}&match=nearest").json() == guess
    verified(engine, job)
    answers = [client.get(f"{QUERY}&match={match}").json() for match in ("nearest", "exact")]
    assert answers[0] == answers[1]
    answer = answers[0]
    assert (answer["match"], answer["verified"], answer["verify"]) == ("nearest", True, None)
    assert (answer["neighbour"], answer["config"]) == (guess["neighbour"], guess["config"])
    assert (answer["time_us"], answer["trials"], answer["job"]) == (1.4, 1, job["id"])
    assert all(answer["artifacts"].values())


def test_verified_best_lends_its_configuration_to_no_other_shape(
    client: TestClient, engine: Engine
) -> None:
    far = tuned(engine, "conv1d", {"M": 8192, "N": 32})
    verified(engine, client.post("/jobs/nearest", json=ASKED).json())
    assert client.get("/best/conv1d?M=4001&N=32&match=nearest").json()["job"] == far.id


def test_equal_verification_order_gets_the_same_job(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 4096, "N": 32})
    first = client.post("/jobs/nearest", json=ASKED)
    second = client.post("/jobs/nearest", json=ASKED)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]


def test_nearest_order_of_a_tuned_shape_gets_its_tuning_job(
    client: TestClient, engine: Engine
) -> None:
    job = tuned(engine, "conv1d", {"M": 4000, "N": 32})
    response = client.post("/jobs/nearest", json=ASKED)
    assert (response.status_code, response.json()["id"]) == (200, job.id)


def test_verification_job_has_the_target_of_its_lender(client: TestClient, engine: Engine) -> None:
    """The job's target is the kind of device on which the lender was tuned."""
    tuned(engine, "conv1d", {"M": 4096, "N": 32}, GPU, time_us=1.0)
    tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, time_us=9.0)
    assert client.post("/jobs/nearest", json=ASKED | {"target": "cpu"}).json()["target"] == "cpu"
    named = client.post("/jobs/nearest", json=ASKED | {"device": "Test GPU"}).json()
    assert named["target"] == "cuda"
    [lent] = listed.of_job(engine, named["id"])
    assert lent.source["device"] == "Test GPU"
    assert operator("conv1d").workload.model_validate(lent.source["workload"]).M == 4096


def lender_of(client: TestClient, engine: Engine, filters: str) -> tuple[str, str]:
    """Return the ids of the jobs whose bests lend to the query and to its verifying job."""
    guess = client.get(f"{QUERY}&match=nearest&{filters}").json()
    ordered = client.post(guess["verify"]["url"], json=guess["verify"]["body"])
    assert ordered.status_code == 201, ordered.text
    [lent] = listed.of_job(engine, ordered.json()["id"])
    return guess["job"], lent.source["job"]


@pytest.mark.parametrize("name", ["conv1d", "depthwise_conv2d"])
def test_best_and_nearest_take_as_many_templates_as_an_order(client: TestClient, name: str) -> None:
    """Both routes take as many names as an order, however long the names are together."""
    asked = 32 * [max(template_names(name), key=len)]
    workload = operator(name).example
    order = {"operator": name, "workload": workload, "templates": asked}
    posted = client.post("/jobs/nearest", json=order)
    got = client.get(f"/best/{name}", params=workload | {"templates": ",".join(asked)})
    assert problem(posted, 404, "not-tuned")
    assert problem(got, 404, "not-tuned")


def test_lender_on_more_threads_than_requested_is_not_used(
    client: TestClient, engine: Engine
) -> None:
    close = tuned(engine, "conv1d", {"M": 4001, "N": 32}, HOST, threads=8)
    far = tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, threads=1)
    assert lender_of(client, engine, "threads=1") == (far.id, far.id)
    assert lender_of(client, engine, "threads=8") == (close.id, close.id)


def test_searched_best_lends_although_a_verified_one_of_its_shape_exists(
    client: TestClient, engine: Engine
) -> None:
    """If a shape has a verified best and a searched one, the searched one lends.

    The two are on different numbers of threads.
    """
    searched = tuned(engine, "conv1d", ASKED["workload"], HOST, time_us=2.0, threads=8)
    tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, threads=1)
    job = client.post("/jobs/nearest", json=ASKED | {"threads": 1}).json()
    verified(engine, job, fingerprint=HOST, threads=1)
    assert client.get(QUERY).json()["job"] == job["id"]
    assert client.get("/best/conv1d?M=4001&N=32&match=nearest").json()["job"] == searched.id


def test_nearest_order_ignores_an_own_best_on_too_many_threads(
    client: TestClient, engine: Engine
) -> None:
    own = tuned(engine, "conv1d", ASKED["workload"], HOST, threads=8)
    tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, threads=1)
    assert client.post("/jobs/nearest", json=ASKED).json()["id"] == own.id
    assert client.post("/jobs/nearest", json=ASKED | {"threads": 1}).status_code == 201


def test_parallel_prefers_a_lender_on_several_threads(client: TestClient, engine: Engine) -> None:
    serial = tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, time_us=5.0, threads=1)
    parallel = tuned(engine, "conv1d", {"M": 4096, "N": 32}, HOST, time_us=9.0, threads=8)
    assert lender_of(client, engine, "parallel=true") == (parallel.id, parallel.id)
    assert client.get(f"{QUERY}&match=nearest").json()["job"] == serial.id


def test_nearest_order_gets_404_if_no_tuned_shape_can_lend(client: TestClient) -> None:
    document = problem(client.post("/jobs/nearest", json=ASKED), 404, "not-tuned")
    assert "no tuned shape can lend" in document["detail"]
    assert document["tune"]["url"] == "/jobs"
    problem(
        client.post("/jobs/nearest", json=ASKED | {"trials": 3}), 422, "invalid-request", "trials"
    )
    problem(
        client.post(
            "/jobs/nearest",
            json={"operator": "conv1d", "workload": {"M": 4, "N": 5, "mode": "valid"}},
        ),
        422,
        "invalid-request",
        "workload.N",
    )

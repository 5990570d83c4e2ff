"""match=predicted: a short job verifies what a ranker expects to be fast, and its best says so."""

from typing import Any

from problem_shape import problem
from service_rows import tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient
from test_api_verify import verified_as  # ends a job as a worker does

QUERY = "/best/conv1d?M=4000&N=32"


def ask(client: TestClient, match: str = "predicted") -> Any:
    return client.get(f"{QUERY}&match={match}")


def test_404_of_an_untuned_shape_contains_the_order_for_a_prediction(client: TestClient) -> None:
    document = problem(ask(client), 404, "not-tuned")
    body = document["tune"]["body"]
    assert (body["search"], body["trials"], body["baselines"]) == ("predicted", 8, "none")
    job = client.post(document["tune"]["url"], json=body)
    assert job.status_code == 201
    document = problem(ask(client), 404, "not-tuned")
    assert document["job"]["id"] == job.json()["id"]
    assert client.post("/jobs", json=body).json()["id"] == job.json()["id"]


def test_best_of_a_prediction_is_marked_as_predicted(client: TestClient, engine: Engine) -> None:
    job = client.post("/jobs", json=problem(ask(client), 404, "not-tuned")["tune"]["body"]).json()
    verified_as(engine, job, {"template": "direct", "threads": 64}, 3)
    answers = [ask(client, match).json() for match in ("predicted", "exact", "nearest")]
    assert answers[0] == answers[1] == answers[2]
    answer = answers[0]
    assert (answer["match"], answer["verified"], answer["neighbour"]) == ("predicted", True, None)
    assert (answer["job"], answer["time_us"]) == (job["id"], 1.4)
    assert all(answer["artifacts"].values())
    page = client.get(QUERY.replace("/best", "/ui/best")).text
    assert "predicted, not searched for" in page


def test_match_predicted_returns_the_exact_best_if_the_shape_is_tuned(
    client: TestClient, engine: Engine
) -> None:
    job = tuned(engine, "conv1d", {"M": 4000, "N": 32})
    answer = ask(client).json()
    assert (answer["match"], answer["job"]) == ("exact", job.id)


def test_predicted_best_lends_its_configuration_to_no_other_shape(
    client: TestClient, engine: Engine
) -> None:
    job = client.post("/jobs", json=problem(ask(client), 404, "not-tuned")["tune"]["body"]).json()
    verified_as(engine, job, {"template": "direct", "threads": 64}, 3)
    problem(client.get("/best/conv1d?M=4001&N=32&match=nearest"), 404, "not-tuned")


def test_the_page_of_an_untuned_shape_orders_a_prediction(client: TestClient) -> None:
    page = client.get("/ui/best/conv1d?M=4000&N=32&target=cuda").text
    form = page.partition('id="predict"')[2].partition("</form>")[0]
    fields = {
        part.partition('"')[0]: part.partition('value="')[2].partition('"')[0]
        for part in form.split('name="')[1:]
    }
    assert fields["workload.M"] == "4000"
    sent = client.post(
        "/ui/jobs", data=fields, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False
    )
    assert sent.status_code == 303
    job = client.get("/jobs").json()["items"][0]
    assert (job["search"], job["target"], job["trials"]["requested"]) == ("predicted", "cuda", 8)
    assert job["workload"]["M"] == 4000

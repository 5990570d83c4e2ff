"""The table of a job's trials on its page, and as CSV."""

import csv
import io
import re

import pytest
from fastapi import FastAPI
from service_rows import GPU, new_trial, running
from sqlalchemy import Engine
from starlette.testclient import TestClient

from api.concurrency_limit import ConcurrencyLimit
from db.fleet import devices
from db.results import trials

HTML = {"accept": "text/html"}


@pytest.fixture
def job(engine: Engine) -> str:
    """The id of a running job with 30 trials that worked and one whose texts are hostile."""
    device = devices.upsert_device(engine, GPU)
    held = running(engine, "conv1d", {"M": 100, "N": 3}, trials=50)
    new = [new_trial(device, number, time_us=40.0 - number) for number in range(1, 31)]
    hostile = {"template": "fft", "threads": 7, "block": "=1+1"}
    error = {"status": "build_error", "time_us": None, "error": "@SUM(1) <b>"}
    new.append(new_trial(device, 1, config=hostile, template="fft", **error))
    trials.add(engine, held.id, held.attempt, new)
    return held.id


def numbers(client: TestClient, job: str, query: str = "") -> list[int]:
    """Return the numbers of the trials in the table, in its order."""
    text = client.get(f"/ui/jobs/{job}/trials?{query}", headers=HTML).text
    assert text.count("<section") == 1
    return [int(found) for found in re.findall(r'data-label="Trial">(\d+)<', text)]


def test_trial_table_lists_the_fastest_trials_first(client: TestClient, job: str) -> None:
    assert numbers(client, job) == list(range(30, 5, -1))
    assert numbers(client, job, "show=100")[-1] == 31
    text = client.get(f"/ui/jobs/{job}", headers=HTML).text
    assert "The first 25 of 31." in text


def test_trial_table_is_sorted_and_filtered_by_its_query(client: TestClient, job: str) -> None:
    assert numbers(client, job, "sort=-number")[:2] == [31, 30]
    assert numbers(client, job, "sort=-time_us&show=100")[:2] == [1, 2]
    assert numbers(client, job, "status=build_error") == [31]
    assert numbers(client, job, "template=fft") == [31]
    assert numbers(client, job, "knobs=threads%3D7") == [7, 31]
    assert numbers(client, job, "knobs=threads%3D7+template%3Ddirect") == [7]


def test_job_page_filters_its_trial_table_by_the_query(client: TestClient, job: str) -> None:
    text = client.get(f"/ui/jobs/{job}?status=build_error&sort=number", headers=HTML).text
    assert "All 1." in text
    assert 'aria-sort="ascending"' in text
    assert "&lt;b&gt;" in text and "<b>" not in text


def test_trial_table_names_an_invalid_knob_filter(client: TestClient, job: str) -> None:
    text = client.get(f"/ui/jobs/{job}/trials?knobs=%3Cthreads%3E", headers=HTML).text
    assert "&lt;threads&gt; is no knob with its value" in text
    assert (
        "No trial matches"
        in client.get(f"/ui/jobs/{job}/trials?knobs=nothing%3D1", headers=HTML).text
    )


@pytest.mark.parametrize("query", ["sort=x", "show=7", "show=-1", "status=%00", "knobs=a%3D%00"])
def test_job_page_answers_200_to_an_invalid_query(client: TestClient, job: str, query: str) -> None:
    assert client.get(f"/ui/jobs/{job}?{query}", headers=HTML).status_code == 200


def test_browser_address_changes_if_the_reader_sorts_not_if_the_page_refreshes(
    client: TestClient, job: str
) -> None:
    path = f"/ui/jobs/{job}/trials?sort=-number"
    assert client.get(path, headers=HTML).headers["hx-replace-url"] == (
        f"/ui/jobs/{job}?sort=-number"
    )
    renewed = client.get(path, headers=HTML | {"hx-trigger": "trials"})
    assert "hx-replace-url" not in renewed.headers


def rows(client: TestClient, job: str, query: str = "") -> list[dict[str, str]]:
    """Return the rows of the CSV."""
    answer = client.get(f"/ui/jobs/{job}/trials.csv?{query}")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert ".csv" in answer.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_csv_has_all_trials_of_a_job(client: TestClient, job: str) -> None:
    found = rows(client, job)
    assert [row["number"] for row in found] == [str(number) for number in range(1, 32)]
    assert found[0]["threads"] == "1" and found[0]["block"] == ""
    assert found[0]["time_us"] == "39.0" and found[0]["seconds"] == "0.5"
    assert found[30]["status"] == "build_error" and found[30]["template"] == "fft"


def test_csv_escapes_cells_that_a_spreadsheet_would_run(client: TestClient, job: str) -> None:
    """Cells of the CSV that a spreadsheet would run as formulas get an apostrophe."""
    (failed,) = rows(client, job, "status=build_error")
    assert (failed["error"], failed["block"]) == ("'@SUM(1) <b>", "'=1+1")


def test_csv_gets_503_if_too_many_exports_run(client: TestClient, app: FastAPI, job: str) -> None:
    app.state.export_limit = ConcurrencyLimit("exports", 0, 0.05)
    refused = client.get(f"/ui/jobs/{job}/trials.csv", headers=HTML)
    assert refused.status_code == 503
    assert "At most 0 exports are under way" in refused.text


def test_trials_of_an_unknown_job_get_404(client: TestClient) -> None:
    for path in ("trials", "trials.csv"):
        assert client.get(f"/ui/jobs/{'0' * 32}/{path}", headers=HTML).status_code == 404

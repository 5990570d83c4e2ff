"""The label of a job, over HTTP and on the pages."""

import json
from typing import Any

import pytest
from problem_shape import problem
from starlette.testclient import TestClient

ORDER = {"operator": "conv1d", "workload": {"M": 100, "N": 3}}
HTML = {"accept": "text/html"}
JSON = {"content-type": "application/json"}


def ordered(client: TestClient, **more: Any) -> dict[str, Any]:
    answer = client.post("/jobs", json=ORDER | more)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_label_is_shown_and_jobs_are_found_by_it(client: TestClient) -> None:
    made = ordered(client, label="Nightly <b>", seed=1)
    ordered(client, seed=2)
    assert made["label"] == "Nightly <b>"
    items = client.get("/jobs", params={"label": "nightLY"}).json()["items"]
    assert [job["id"] for job in items] == [made["id"]]
    assert client.get("/jobs?label=other").json()["items"] == []
    assert len(client.get("/jobs?label=").json()["items"]) == 2


BLANKS = (
    "\u115f\u1160",
    "\u180e",
    "\u200c\u200d",
    "\u2800",
    "\u3164 \uffa0",
    "\ufe0f",
    "\U000e0041",
)
EMOJI = ("👩\u200d🚀", "❤\ufe0f", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f")
"""An astronaut, a red heart and the flag of England."""


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("x" * 201, "must have at most 200 characters"),
        ("", "must have at least 1 character"),
        (" \u00a0 ", "must have more than blanks in it"),
        ("two\nlines", r"must not have '\n' in it, but is"),
        ("a\0", r"must not have '\x00' in it"),
        ("a\u202eb", r"must not have '\u202e' in it"),
        ("a\u061cb", r"must not have '\u061c' in it"),
        ("Mai\u00adland", r"must not have '\xad' in it"),
        ("a\ufff9b", r"must not have '\ufff9' in it"),
        *((blank, "must have more than blanks in it") for blank in BLANKS),
        (7, "must be a string"),
        ("\ud800", r'Unicode characters, but is "\ud800"'),
    ],
)
def test_invalid_label_is_refused(client: TestClient, label: Any, says: str) -> None:
    order = json.dumps(ORDER | {"label": label})
    answer = client.post("/jobs", content=order, headers=JSON)
    assert says in problem(answer, 422, "invalid-request", "label")["detail"]


def test_label_may_have_letters_of_any_language_and_emoji(client: TestClient) -> None:
    labels = ("Ofen 1", "печь", "窯 🔥", "می‌خواهم", " a b ", "x" * 200, *EMOJI)
    for seed, label in enumerate(labels):
        assert ordered(client, label=label, seed=seed)["label"] == label


def test_job_list_page_filters_by_label(client: TestClient) -> None:
    one, two = ordered(client, label="Nightly <b>", seed=1), ordered(client, seed=2)
    for path in ("/", "/ui/jobs"):
        shown = client.get(path, params={"label": "NIGHT"}, headers=HTML).text
        assert f"job-{one['id']}" in shown
        assert f"job-{two['id']}" not in shown
        assert "<strong>Nightly &lt;b&gt;</strong>" in shown
        assert 'hx-get="/ui/jobs?state=&amp;operator=&amp;label=NIGHT&amp;cursor="' in shown
    both = client.get("/?label=night&state=queued", headers=HTML).text
    assert '<input type="hidden" name="state" value="queued">' in both
    assert 'href="/?state=failed&amp;label=night"' in both
    none = client.get("/?label=no%22where", headers=HTML).text
    assert "No job here has “no&#34;where” in its label" in none
    assert "Nightly &lt;b&gt;" in client.get(f"/ui/jobs/{one['id']}", headers=HTML).text


def test_order_form_keeps_a_label_of_digits_as_text(client: TestClient) -> None:
    sent = {"operator": "conv1d", "workload.M": "100", "workload.N": "3", "label": "2024"}
    own = {"sec-fetch-site": "same-origin"}
    answer = client.post("/ui/jobs", data=sent, headers=own, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    [job] = client.get("/jobs?label=2024").json()["items"]
    assert job["label"] == "2024"
    again = client.get(f"/?duplicate={job['id']}", headers=HTML).text
    assert 'name="label" value="2024"' in again

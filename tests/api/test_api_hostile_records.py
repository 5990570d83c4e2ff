"""Whatever is sent to POST /records, the answer is jobs or a problem; a problem writes nothing."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_rows import GPU, HOST, rows, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db.contract.order import JobOrder
from tests.foreign_logs import LINES, METASCHEDULE, OTHERS
from tests.hostile import logs, mangled

TYPE = {"content-type": "application/x-ndjson"}
PROBLEM = 20_000
"""Upper limit for the size of a problem in bytes, however much was sent."""
fuzzed = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sent(client: TestClient, engine: Engine, log: bytes) -> Any:
    """Send the log and return the answer, after checking it and what was stored."""
    before = rows(engine)
    answer = client.post("/records", content=log, headers=TYPE)
    said = answer.json()
    if answer.status_code == 201:
        assert rows(engine)["jobs"] == before["jobs"] + sum(job["created"] for job in said["jobs"])
        for job in said["jobs"]:
            requested = client.get(job["url"]).json()["trials"]["requested"]
            assert requested == (job["configurations"] or JobOrder.trials)
        return answer
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(each["field"].startswith("records.") for each in said["errors"])
    assert "nothing was imported" in said["detail"]
    assert len(answer.content) < PROBLEM
    assert rows(engine) == before
    return answer


@fuzzed
@given(logs([*LINES, *METASCHEDULE], OTHERS))
def test_hostile_log_gets_jobs_or_a_problem(client: TestClient, engine: Engine, log: bytes) -> None:
    sent(client, engine, log)


@fuzzed
@given(st.data())
def test_mangled_export_gets_jobs_or_a_problem(
    client: TestClient, engine: Engine, data: st.DataObject
) -> None:
    if not rows(engine)["bests"]:
        tuned(engine, "conv1d", {"M": 100, "N": 7}, GPU)
        tuned(engine, "depthwise_conv2d", {"B": 1, "C": 1, "H": 8, "W": 8, "K": 3}, HOST)
    form = data.draw(st.sampled_from(["convtune", "metaschedule", "autotvm", "kerneltuner"]))
    log = client.get(f"/records?format={form}&of=bests").content
    sent(client, engine, data.draw(mangled(log)))


@pytest.mark.parametrize("name", ["x" * 10**5, "\\ud800" * 1000, "\\u0000", ""])
def test_refusal_of_long_unknown_names_stays_short(
    client: TestClient, engine: Engine, name: str
) -> None:
    assert sent(client, engine, (f'{{"{name}": 1}}\n' * 30).encode()).status_code == 422

"""A database file that is deleted while the service runs: it answers 503 and makes no new file."""

from pathlib import Path

from problem_shape import problem
from starlette.testclient import TestClient

ORDER = {"operator": "conv1d", "workload": {"M": 100, "N": 3}}


def test_service_answers_503_after_its_database_file_is_deleted(
    client: TestClient, tmp_path: Path
) -> None:
    assert client.post("/jobs", json=ORDER).status_code == 201
    for each in tmp_path.glob("service.db*"):
        each.unlink()
    problem(client.post("/jobs", json=ORDER | {"trials": 5}), 503, "database-unavailable")
    for path in ("/readyz", "/jobs", "/best/conv1d?M=100&N=3"):
        problem(client.get(path), 503, "database-unavailable")
    assert client.get("/healthz").status_code == 200
    assert list(tmp_path.glob("service.db*")) == []

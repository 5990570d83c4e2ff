"""Times of peers, which later jobs with the same versions take over."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine
from storage_rows import device, submitted

from db.results import peer_times

ROWS = [{"name": "numpy", "time_us": 20.0, "max_error": 1e-7, "error": None, "level": "call"}]
VERSIONS = {"numpy": "2.5.2", "units": "2"}


def test_peer_times_are_found_only_with_the_same_versions(engine: Engine) -> None:
    job, cpu, other = submitted(engine), device(engine, kind="cpu"), device(engine)
    mine: Any = (job.workload_key, cpu.id, "all")
    assert peer_times.find(engine, *mine, VERSIONS) is None
    peer_times.store(engine, *mine, VERSIONS, ROWS)
    found = peer_times.find(engine, *mine, VERSIONS)
    assert found is not None and found.rows == ROWS
    assert abs(datetime.now(UTC) - found.measured_at) < timedelta(minutes=5)
    assert peer_times.find(engine, *mine, VERSIONS | {"numpy": "2.6.0"}) is None
    assert peer_times.find(engine, *mine, VERSIONS | {"torch": "2.13.0"}) is None
    assert peer_times.find(engine, job.workload_key, cpu.id, "pytorch", VERSIONS) is None
    assert peer_times.find(engine, job.workload_key, other.id, "all", VERSIONS) is None
    assert peer_times.find(engine, job.workload_key + " ", cpu.id, "all", VERSIONS) is None


def test_new_peer_times_replace_the_old(engine: Engine) -> None:
    job, cpu = submitted(engine), device(engine, kind="cpu")
    mine: Any = (job.workload_key, cpu.id, "all")
    peer_times.store(engine, *mine, VERSIONS, ROWS)
    newer, rows = VERSIONS | {"numpy": "2.6.0"}, [ROWS[0] | {"time_us": 10.0}]
    peer_times.store(engine, *mine, newer, rows)
    assert peer_times.find(engine, *mine, VERSIONS) is None
    found = peer_times.find(engine, *mine, newer)
    assert found is not None and found.rows == rows

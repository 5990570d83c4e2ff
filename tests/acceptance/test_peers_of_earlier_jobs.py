"""A workload's peers are timed by one job, for all that follow."""

import pytest
from processes import Database
from runs import Bench

from db.results import best, peer_times
from tuner.measure.versions import of_peers

SHAPE = {"M": 300, "N": 8}
ROW = {"name": "planted", "time_us": 4e4, "max_error": 1e-7, "error": None, "level": "call"}


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of a rough round are kept for nobody."""
    monkeypatch.setenv("TUNER_SETTLE_SECONDS", "0.01")


def test_a_quiet_job_keeps_them_and_the_next_takes_them_over(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=2, baselines="all")
    bench.run(database, job)
    mine = job.workload_key, bench.device_id(database), job.baselines
    ours = of_peers(bench.device)
    (found,) = best.lookup(database.engine, job.workload_key)
    timed = {row["name"] for row in found.baselines} - {"default", "naive"}
    assert "numpy.convolve" in timed
    kept = peer_times.kept(database.engine, *mine, ours)
    if found.timing["noise"]["quiet"]:
        assert kept is not None and {row["name"] for row in kept.rows} == timed
    else:
        assert kept is None

    peer_times.keep(database.engine, *mine, ours, [ROW])
    bench.run(database, database.submit(SHAPE, trials=3, baselines="all"))
    rows = {row["name"]: row for row in latest(database, job.workload_key)}
    if "planted" in rows:  # else the first job's best was faster, and stayed
        assert rows.keys() - {"default", "naive"} == {"planted"}
        assert rows["planted"]["measured_at"] is not None
        assert rows["planted"]["time_us"] == ROW["time_us"]
        assert rows["planted"]["speedup"] > 1


def latest(database: Database, workload_key: str) -> list[dict[str, object]]:
    (found,) = best.lookup(database.engine, workload_key)
    return found.baselines

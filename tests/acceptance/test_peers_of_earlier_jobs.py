"""One job times a workload's peers, and later jobs take over the times."""

import pytest
from processes import Database
from runs import Bench

from db.results import best, peer_times
from tuner.measure.versions import of_peers

SHAPE = {"M": 300, "N": 8}
ROW = {"name": "planted", "time_us": 4e4, "max_error": 1e-7, "error": None, "level": "call"}


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for a round that is not rough: times of a rough round are not kept for later jobs."""
    monkeypatch.setenv("TUNER_SETTLE_SECONDS", "0.01")


def test_quiet_job_stores_its_peer_times_and_the_next_job_uses_them(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=2, baselines="all")
    bench.run(database, job)
    mine = job.workload_key, bench.device_id(database), job.baselines
    ours = of_peers(bench.device)
    (found,) = best.lookup(database.engine, job.workload_key)
    timed = {row["name"] for row in found.baselines} - {"default", "naive"}
    assert "numpy.convolve" in timed
    kept = peer_times.find(database.engine, *mine, ours)
    if found.timing["noise"]["quiet"]:
        assert kept is not None and {row["name"] for row in kept.rows} == timed
    else:
        assert kept is None

    peer_times.store(database.engine, *mine, ours, [ROW])
    # an order with other templates has a best of its own, which a faster best does not keep out
    other = database.submit(SHAPE, trials=2, baselines="all", templates=["direct"])
    bench.run(database, other)
    stored = best.bests_on_device(database.engine, job.workload_key, bench.device_id(database))
    rows = next(each.baselines for each in stored if each.job_id == other.id)
    (row,) = [row for row in rows if row["name"] not in ("default", "naive")]
    assert row["name"] == "planted"
    assert row["measured_at"] is not None
    assert row["time_us"] == ROW["time_us"]
    assert row["speedup"] > 1

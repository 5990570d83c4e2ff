"""A worker that builds on this host and measures on RPC servers, from an order to its best."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from namespaces import HERE, NotAllowed, network
from processes import Database, Worker, until

from db import queue
from db.results import best
from tests.tuner.farm.farmed import Server, Tracker

SHAPE = {"M": 512, "N": 8}


@pytest.fixture
def hosts() -> Iterator[list[tuple[str, str]]]:
    """Namespace and address of three hosts.

    If this machine makes no namespaces, all three are the machine itself.
    """
    with ExitStack() as stack:
        try:
            found = stack.enter_context(network(3))
        except NotAllowed:
            found = 3 * [("", "127.0.0.1")]
        yield found


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[Tracker]:
    started = Tracker(tmp_path)
    yield started
    started.kill()


def over(
    tracker: Tracker,
    database: Database,
    folder: Path,
    *options: str,
    module: str = "tuner.worker",
) -> Worker:
    """Start ``python -m tuner.worker`` on the tracker's servers."""
    address = "{}:{}".format(*tracker.address)
    farm = ("--rpc-tracker", address, "--rpc-key", "cpu")
    return Worker(database.url, folder, *farm, *options, module=[module])


def test_jobs_are_measured_on_two_servers(
    database: Database, hosts: list[tuple[str, str]], tmp_path: Path
) -> None:
    (there, address), *others = hosts
    tracker = Tracker(tmp_path, address, there)
    servers = [
        Server(tmp_path, f"server-{n}", tracker, "cpu", host=host, namespace=name)
        for n, (name, host) in enumerate(others)
    ]
    try:
        for server in servers:
            server.ready()
        job = database.submit(SHAPE, trials=5, baselines="all")
        next_one = database.submit(SHAPE | {"N": 9}, trials=5)
        worker = over(tracker, database, tmp_path, "--once")
        assert worker.wait(240) == 0, worker.events
        for each in (job, next_one):
            ended = queue.get(database.engine, each.id)
            assert (ended.state, ended.error) == ("succeeded", None)
            assert [trial.number for trial in database.trials(each)] == list(range(1, 6))
        [found] = best.lookup(database.engine, job.workload_key)
        names = {each["name"] for each in found.baselines}
        assert {"numpy.convolve", "naive"} <= names  # peers of the servers' machine
        assert found.time_us > 0
        near_end = HERE if there else address
        connected = [server.log.read_text() for server in servers]
        assert all(f"connected from ('{near_end}'" in said for said in connected), connected
    finally:
        for each in (*servers, tracker):
            each.kill()


@pytest.mark.timeout(300)
def test_a_job_whose_servers_are_gone_is_given_back_and_goes_on(
    database: Database, tracker: Tracker, tmp_path: Path
) -> None:
    first = Server(tmp_path, "first", tracker, "cpu").ready()
    job = database.submit(SHAPE, trials=24)
    stopped = over(tracker, database, tmp_path)
    until(lambda: database.trials(job))
    code, seconds = stopped.stop()
    assert code == 0 and seconds < 10
    assert queue.get(database.engine, job.id).state == "queued"
    worker = over(tracker, database, tmp_path, module="tests.acceptance.impatient_farm")
    try:
        until(lambda: queue.get(database.engine, job.id).state == "running")
        first.kill()
        until(lambda: queue.get(database.engine, job.id).state == "queued")
        before = database.trials(job)
        second = Server(tmp_path, "second", tracker, "cpu").ready()
        until(lambda: queue.get(database.engine, job.id).state == "succeeded", 120)
        second.stop()
        assert database.trials(job)[: len(before)] == before
        assert len(database.trials(job)) == 24
        assert queue.get(database.engine, job.id).attempt == 3
    finally:
        worker.stop()
    assert worker.said("job_without_server")

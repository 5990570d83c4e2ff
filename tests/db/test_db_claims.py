"""Claims by many workers at once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine, event
from storage_rows import claimed, submitted

from db import queue

CLAIM_ALL = """
import sys
from db import queue
from db.sql.engine import open_engine
engine = open_engine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while (job := queue.claim(engine, sys.argv[2], ["cuda"])) is not None:
    print(job.id, job.attempt)
"""


def test_threads_never_get_the_same_job(engine: Engine) -> None:
    waiting = {submitted(engine, length).id for length in range(40)}

    def claim_all(worker: str) -> list[str]:
        mine = []
        while (job := queue.claim(engine, worker, ["cuda"])) is not None:
            mine.append(job.id)
        return mine

    with ThreadPoolExecutor(8) as threads:
        shares = list(threads.map(claim_all, [f"worker {n}" for n in range(8)]))
    taken = [job for share in shares for job in share]
    assert len(taken) == len(set(taken)) == 40
    assert set(taken) == waiting


def test_processes_never_get_the_same_job(engine: Engine, url: str) -> None:
    waiting = {submitted(engine, length).id for length in range(60)}
    commands = [[sys.executable, "-c", CLAIM_ALL, url, f"worker {n}"] for n in range(3)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for command in commands]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = []
    for process in processes:
        taken += process.communicate(timeout=60)[0].splitlines()
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(taken) == sorted(f"{job} 1" for job in waiting)


def test_expired_job_goes_to_exactly_one_of_several_workers(engine: Engine) -> None:
    for length in range(10):
        submitted(engine, length)
        held = queue.claim(engine, "gone", ["cuda"], lease_seconds=-1)
        assert held is not None
        with ThreadPoolExecutor(4) as threads:
            got = list(threads.map(lambda n: queue.claim(engine, f"{n}", ["cuda"]), range(4)))
        assert [job.attempt for job in got if job is not None] == [2]


def test_a_claim_is_one_statement(engine: Engine) -> None:
    submitted(engine)
    said: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *seen: said.append(seen[2]))
    claimed(engine)
    assert [each[:6] for each in said if not each.startswith("BEGIN")] == ["UPDATE"]


def test_a_claim_that_meets_abandoned_jobs_ends_them_and_goes_on(engine: Engine) -> None:
    """A claim ends jobs without attempts left or with a cancel, and still returns a job."""
    hopeless = submitted(engine, 10)
    for _ in range(queue.MAX_ATTEMPTS):
        assert claimed(engine, "gone", seconds=-1).id == hopeless.id
    unwanted = submitted(engine, 11, target="cpu")
    held = queue.claim(engine, "gone", ["cpu"], lease_seconds=-1, job_id=unwanted.id)
    assert held is not None
    queue.cancel(engine, unwanted.id)
    wanted = submitted(engine, 12)
    assert claimed(engine).id == wanted.id
    assert queue.get(engine, hopeless.id).state == "failed"
    assert queue.get(engine, unwanted.id).state == "cancelled"


def test_claim_of_a_named_job_touches_no_other(engine: Engine) -> None:
    first, second = submitted(engine, 10), submitted(engine, 11)
    taken = queue.claim(engine, "worker", ["cuda"], job_id=second.id)
    assert taken is not None
    assert (taken.id, taken.workload, taken.workload_key) == (
        second.id,
        second.workload,
        second.workload_key,
    )
    assert queue.claim(engine, "worker", ["cuda"], job_id=second.id) is None
    assert queue.claim(engine, "worker", ["cuda"], job_id="0" * 32) is None
    assert queue.get(engine, first.id) == first


def test_claim_without_a_kind_of_device_gets_only_auto_jobs(engine: Engine) -> None:
    submitted(engine, 10, target="cpu")
    anywhere = submitted(engine, 11)
    taken = [queue.claim(engine, "worker", []) for _ in range(2)]
    assert [job and job.id for job in taken] == [anywhere.id, None]

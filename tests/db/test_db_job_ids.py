"""Completion of job ids in the shell gives the same ids on both engines."""

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, submitted

from db import queue
from db.read import job_ids


def test_job_ids_are_found_by_their_beginning(engine: Engine, url: str) -> None:
    old, new = submitted(engine, 64), submitted(engine, 65)
    claimed(engine)
    listed = [(new.id, "queued conv1d"), (old.id, "running conv1d")]
    assert job_ids.find_by_prefix(url, "", queue.STATES) == listed
    assert job_ids.find_by_prefix(url, "", ["queued"]) == listed[:1]
    assert job_ids.find_by_prefix(url, new.id, queue.STATES) == listed[:1]
    assert job_ids.find_by_prefix(url, old.id[:31], queue.STATES) == listed[1:]


@pytest.mark.parametrize("start", ["{}", "%", "_", "é", "0 ", "{}0"])
def test_text_that_begins_no_id_finds_no_job(engine: Engine, url: str, start: str) -> None:
    jobs = [submitted(engine, length) for length in range(64, 72)]
    lettered = next(job.id for job in jobs if not job.id.isdecimal())
    assert job_ids.find_by_prefix(url, start.format(lettered.upper()), queue.STATES) == []

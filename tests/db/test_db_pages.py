"""Pages of jobs and their cursors."""

import base64
import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine
from storage_rows import claimed, order, submitted

from db import queue
from db.contract.order import JobFilter
from db.read import views
from db.sql.errors import BadCursor
from db.sql.pages import read_cursor, write_cursor


def walk(engine: Engine, state: str | None = None) -> list[str]:
    """Return the ids of all jobs, read in pages of three."""
    seen, cursor = [], None
    while True:
        page = queue.list_jobs(engine, JobFilter(state=state), limit=3, cursor=cursor)
        seen += [job.id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return seen


@pytest.mark.parametrize("count", [0, 2, 3, 4, 9])
def test_pages_hold_every_job_once_newest_first(engine: Engine, count: int) -> None:
    made = [submitted(engine, length).id for length in range(count)]
    assert walk(engine) == made[::-1]


def test_jobs_submitted_between_two_pages_shift_nothing(engine: Engine) -> None:
    made = [submitted(engine, length).id for length in range(9)]
    seen, cursor = [], None
    for length in range(100, 103):
        page = queue.list_jobs(engine, limit=3, cursor=cursor)
        seen += [job.id for job in page.items]
        cursor = page.next_cursor
        submitted(engine, length)
    assert seen == made[::-1]
    assert cursor is None


def test_jobs_are_filtered_by_state_and_operator(engine: Engine) -> None:
    made = [submitted(engine, length).id for length in range(5)]
    other = queue.submit(engine, order(9, operator="depthwise_conv2d", workload_key="9"))[0].id
    assert claimed(engine).id == made[0]
    assert walk(engine, "queued") == [other, *made[:0:-1]]
    assert walk(engine, "running") == [made[0]]
    assert walk(engine, "failed") == []
    listed = queue.list_jobs(engine, JobFilter(operator="depthwise_conv2d")).items
    assert [job.id for job in listed] == [other]
    assert (
        queue.list_jobs(engine, JobFilter(state="queued", operator="conv1d"), 1).items[0].id
        == made[4]
    )


@pytest.mark.parametrize("text", ["\0", "\ud800", "no such"])
def test_a_filter_that_fits_nothing_finds_nothing(engine: Engine, text: str) -> None:
    submitted(engine)
    for field in fields(JobFilter):
        assert queue.list_jobs(engine, JobFilter(**{field.name: text})).items == []
    assert views.find_bests(engine, operator=text).items == []


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "=",
        "é",
        "!!!!",
        "AAAA",
        write_cursor("trials", 1),
        encoded(["jobs"]),
        encoded(["jobs", "1"]),
        encoded(["jobs", True]),
        encoded(["jobs", 1.0]),
        encoded(["jobs", -1]),
        encoded(["jobs", 2**63]),
        encoded({"jobs": 1, "x": 2}),
        encoded(None),
        encoded(5),
    ],
)
def test_a_cursor_this_list_did_not_write_is_refused(engine: Engine, cursor: str) -> None:
    with pytest.raises(BadCursor, match="start again without one"):
        queue.list_jobs(engine, cursor=cursor)


@given(st.integers(0, 2**63 - 1))
def test_written_cursor_is_read_back_as_the_same_key(key: int) -> None:
    cursor = write_cursor("jobs", key)
    assert cursor.isascii()
    assert not set(cursor) & set("+/=")
    assert read_cursor("jobs", cursor) == key


@given(st.text())
def test_any_text_that_is_no_cursor_raises_bad_cursor(text: str) -> None:
    with pytest.raises(BadCursor):
        read_cursor("jobs", text)

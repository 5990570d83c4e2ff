"""A job is found by any part of its label, and the label is not part of the order's key."""

import pytest
from sqlalchemy import Engine, update
from storage_rows import order, submitted

from db import queue
from db.contract.order import JobFilter
from db.sql.tables import jobs
from db.sql.transaction import writing


def found(engine: Engine, label: str) -> list[str | None]:
    return [job.label for job in queue.list_jobs(engine, JobFilter(label=label)).items]


@pytest.fixture
def labelled(engine: Engine) -> Engine:
    for length, label in enumerate(("Nightly 100 %", "nightly_b", "ÖFEN und Straße", None), 64):
        submitted(engine, length, label=label)
    return engine


@pytest.mark.parametrize(
    ("part", "labels"),
    [
        ("NIGHT", ["nightly_b", "Nightly 100 %"]),
        ("öfen", ["ÖFEN und Straße"]),
        ("STRASSE", ["ÖFEN und Straße"]),
        ("%", ["Nightly 100 %"]),
        ("_", ["nightly_b"]),
        ("", ["ÖFEN und Straße", "nightly_b", "Nightly 100 %"]),
        ("\\", []),
        ("day\0", []),
    ],
)
def test_label_is_found_by_a_part_of_it_in_any_case(
    labelled: Engine, part: str, labels: list[str]
) -> None:
    assert found(labelled, part) == labels


@pytest.mark.parametrize("part", ["CAFÉ", "cafe\u0301", "7 fi", "Ⅶ"])
def test_label_is_found_in_any_form_of_unicode(engine: Engine, part: str) -> None:
    submitted(engine, 64, label="cafe\u0301 ７ ﬁ vii")
    assert found(engine, part) == ["cafe\u0301 ７ ﬁ vii"]


def test_a_label_of_an_earlier_release_is_found_as_it_is_spelt(engine: Engine) -> None:
    submitted(engine, 64, label="Cafe\u0301")
    with writing(engine) as connection:
        connection.execute(update(jobs).values(label_folded="cafe\u0301"))
    assert found(engine, "CAFE\u0301") == ["Cafe\u0301"]


def test_label_filter_combines_with_other_filters(labelled: Engine) -> None:
    wanted = JobFilter(state="queued", operator="conv1d", label="night")
    first = queue.list_jobs(labelled, wanted, limit=1)
    assert [job.label for job in first.items] == ["nightly_b"]
    rest = queue.list_jobs(labelled, wanted, limit=1, cursor=first.next_cursor)
    assert ([job.label for job in rest.items], rest.next_cursor) == (["Nightly 100 %"], None)


def test_an_equal_order_with_another_label_is_the_same_job(engine: Engine) -> None:
    job, created = queue.submit(engine, order(label="mine"), "key 1")
    assert created
    for label in ("yours", None):
        assert queue.submit(engine, order(label=label), "key 1") == (job, False)
        assert queue.submit(engine, order(label=label)) == (job, False)
    assert queue.get(engine, job.id).label == "mine"

"""The table of a job's trials: its query, its rows, and an export as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlencode

from sqlalchemy import Engine

from db.results import trial_table
from db.results.trial_table import TrialFilter
from db.sql.choices import TrialStatus

PAGE_SIZES = (25, 100, 500)
SORTS = {
    "time_us": "fastest first",
    "-time_us": "slowest first",
    "-number": "newest first",
    "number": "oldest first",
    "max_error": "smallest error first",
    "-max_error": "largest error first",
}
STATUSES = get_args(TrialStatus)
_KNOB = re.compile(r"(\w+)=(\[[^\]]*\]|\S+)")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run text that begins so
_FIRST_COLUMNS = ("number", "status", "time_us", "max_error", "seconds", "template")


@dataclass(frozen=True)
class TrialTableQuery:
    """A reader's query for a job's trials. An invalid ``sort`` or ``show`` becomes the default."""

    sort: str = "time_us"
    status: str = ""
    template: str = ""
    knobs: str = ""
    show: str = str(PAGE_SIZES[0])

    @classmethod
    def read(cls, query: Mapping[str, str]) -> TrialTableQuery:
        """Return the query that a URL has."""
        sort, show = query.get("sort", ""), query.get("show", "")
        return cls(
            sort=sort if sort in SORTS else cls.sort,
            status=query.get("status", ""),
            template=query.get("template", ""),
            knobs=query.get("knobs", "").strip(),
            show=show if show in map(str, PAGE_SIZES) else cls.show,
        )

    @property
    def filter(self) -> TrialFilter:
        """The filter of trials: status, template and the knobs' values."""
        knobs = dict(_KNOB.findall(self.knobs))
        return TrialFilter(self.status or None, self.template or None, knobs)

    @property
    def invalid_knobs(self) -> str:
        """The parts of ``knobs`` that are not of the form ``name=value``."""
        return _KNOB.sub("", self.knobs).strip()

    def toggled_sort(self, sort: str) -> str:
        """Return the order after a click on a heading: ``sort``, or its reverse if it is in use."""
        opposite = sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"
        return opposite if self.sort == sort else sort

    def url_query(self, **changes: str) -> str:
        """Return the query of a URL, with the values that differ from their defaults."""
        given = {**self.__dict__, **changes}
        return urlencode(
            {name: v for name, v in given.items() if v != getattr(TrialTableQuery, name)}
        )


def table(engine: Engine, job_id: str, query: TrialTableQuery) -> dict[str, Any]:
    """Return the requested rows, the number of matching trials, and the form's choices."""
    column, descending = query.sort.removeprefix("-"), query.sort.startswith("-")
    rows, count = trial_table.find_trials(
        engine, job_id, query.filter, column, descending, int(query.show)
    )
    templates = trial_table.templates_of(engine, job_id)
    return {
        "query": query,
        "rows": rows,
        "count": count,
        "choices": {
            "sort": SORTS,
            "status": {"": "any way", **{each: each.replace("_", " ") for each in STATUSES}},
            "template": {"": "any", **{each: each for each in templates}},
            "show": {str(each): str(each) for each in PAGE_SIZES},
        },
    }


def as_csv(engine: Engine, job_id: str, trial_filter: TrialFilter) -> Iterator[str]:
    """Yield CSV: a row for each trial, by number, and a column for each knob that any trial has."""
    knobs: dict[str, None] = {}
    for batch in trial_table.batches(engine, job_id, trial_filter):
        knobs |= dict.fromkeys(name for trial in batch for name in trial["config"])
    names = [name for name in knobs if name not in _FIRST_COLUMNS]
    yield _lines([[*_FIRST_COLUMNS, *names, "error"]])
    for batch in trial_table.batches(engine, job_id, trial_filter):
        yield _lines(_row(trial, names) for trial in batch)


def _row(trial: Mapping[str, Any], knobs: Sequence[str]) -> list[Any]:
    seconds = round(sum(trial["seconds"].values()), 3)
    first = [{**trial, "seconds": seconds}[name] for name in _FIRST_COLUMNS]
    return [*first, *(trial["config"].get(name) for name in knobs), trial["error"]]


def _lines(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a cell that a spreadsheet does not take for a formula: a trial's text is only data."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value

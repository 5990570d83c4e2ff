"""Contents of the page of ladders."""

from __future__ import annotations

from typing import Any

from api.schemas.ladders import LadderView
from api.web.charts import Bar, bars
from db.read.in_words import number
from db.results.ladders import Ladder


def ladder_context(ladder: Ladder) -> dict[str, Any]:
    """Return a ladder with its bars: times on a logarithmic scale.

    A bar has a mark if the seed document gives a time on a T4."""
    view = LadderView.model_validate(ladder)
    rows = [row for row in view.rows if row.time_us]
    given = [
        Bar(
            row.name,
            row.what,
            row.time_us,
            f"{number(row.time_us)} µs",
            title=row.adds or row.note or "",
            mark=row.t4_us,
        )
        for row in rows
    ]
    return {"view": view, "bars": bars(given, logarithmic=True)}

"""Showing a ladder as a table on a terminal, and as an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.ladder.table import Ladder, Row
from tuner.terminal.options import as_options
from tuner.terminal.report import warn_if_noisy

COLOURS = {
    "rung": "#4878a8",
    "best": "#2e8b57",
    "peer": "#c07830",
    "empty": "#909090",
    "floor": "#909090",
}
"""Colours of the bars, by what their rows are."""
BAR, GAP, LABEL, PLOT, MARGIN, TOP = 18, 6, 280, 560, 110, 64
"""Lengths in the picture, in pixels: of a bar's height, of the gaps between bars, of the space for
labels and for bars, and of the right and upper margins."""


def show_ladder(ladder: Ladder, console: Console) -> None:
    """Print the rungs in the documents' order, then the best, the peers, the empty program and the
    floor."""
    device, workload = ladder.device, ladder.workload
    console.print(f"{workload.operator} {as_options(workload)} on {device.name} ({device.arch})")
    table = Table(box=None)
    for heading in ("", "what it adds", "warm µs", "over naive", "over the one before", "T4 µs"):
        left = heading in ("", "what it adds")
        table.add_column(heading, justify="left" if left else "right")
    for row in ladder.rows:
        table.add_row(
            Text(row.name),
            Text(
                f"{row.adds} ({row.note})" if row.adds and row.note else row.adds or row.note or ""
            ),
            _number(row.time_us, ".2f"),
            _ratio(row.over_naive),
            _ratio(row.over_before),
            _number(row.t4_us, ",.1f"),
            style={"best": "bold green", "rung": None}.get(row.what, "dim"),
        )
    console.print(table)
    warn_if_noisy(ladder.noise, console)
    for document in ladder.documents:
        shape = as_options(document.workload)
        console.print(
            f"{document.number}: {document.title}; T4 µs, where given, are for {shape}",
            markup=False,
            highlight=False,
        )


def picture(ladder: Ladder) -> str:
    """Return an SVG picture: a bar for each time, on a logarithmic scale.

    The shortest bar is the shortest time. A mark shows the document's own figure on its T4.
    """
    rows = [row for row in ladder.rows if row.time_us]
    times = [time for row in rows for time in (row.time_us, row.t4_us) if time]
    low = math.floor(math.log10(min(times, default=1.0)))
    high = max(math.ceil(math.log10(max(times, default=10.0))), low + 1)

    def x(time_us: float) -> float:
        return LABEL + PLOT * (math.log10(time_us) - low) / (high - low)

    bottom = TOP + len(rows) * (BAR + GAP)
    width, height = LABEL + PLOT + MARGIN, bottom + 40
    device = f"{ladder.device.name} ({ladder.device.arch})"
    title = f"{ladder.workload.operator} {as_options(ladder.workload)} on {device}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16">{escape(title)}</text>',
        '<text x="12" y="44" fill="#606060">warm median of a call, µs, logarithmic; '
        "◆ the seed document's own figure on its T4, for its own shape</text>",
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}" stroke="#dddddd"/>'
            f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{10.0**power:g}</text>'
        )
    parts += _bars(rows, x)
    return "\n".join([*parts, "</svg>", ""])


def _bars(rows: Sequence[Row], x: Callable[[float], float]) -> list[str]:
    """Return the SVG elements of all bars; ``x`` gives a time's position."""
    parts = []
    for number, row in enumerate(rows):
        top = TOP + number * (BAR + GAP)
        time_us = row.time_us or 0.0
        text, end = top + BAR - 5, x(time_us)
        beyond = max(end, x(row.t4_us) + 5) if row.t4_us else end
        parts.append(
            f"<g><title>{escape(row.adds or row.name)}</title>"
            f'<text x="{LABEL - 8}" y="{text}" text-anchor="end">{escape(row.name)}</text>'
            f'<rect x="{LABEL}" y="{top}" width="{max(1.0, end - LABEL):.1f}" height="{BAR}" '
            f'fill="{COLOURS[row.what]}"/>'
            f'<text x="{beyond + 6:.1f}" y="{text}">{time_us:,.2f}</text>'
        )
        if row.t4_us:
            at, middle = x(row.t4_us), top + BAR / 2
            parts.append(
                f'<path d="M{at - 5:.1f} {middle} L{at:.1f} {middle - 5} L{at + 5:.1f} {middle} '
                f'L{at:.1f} {middle + 5} Z" fill="#202020" stroke="white"/>'
            )
        parts.append("</g>")
    return parts


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _ratio(value: float | None) -> str:
    return _number(value, ",.1f" if value is not None and value >= 10 else ".2f")

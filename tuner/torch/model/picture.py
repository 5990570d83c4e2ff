"""A picture of the times of a model's layers, before and after, as an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

BAR, GAP, LABEL, PLOT, MARGIN, TOP = 12, 12, 280, 560, 90, 48
COLOURS = ("#c07830", "#2e8b57")


def picture(layers: Sequence[tuple[str, float, float]]) -> str:
    """Return an SVG with two bars for each layer.

    ``layers`` are (name, µs by PyTorch, µs tuned).
    """
    longest = max((max(before, after) for _, before, after in layers), default=1.0)
    bottom = TOP + len(layers) * (2 * BAR + GAP)
    width, height = LABEL + PLOT + MARGIN, bottom + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        "<title>Layers of a model, by PyTorch and tuned</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="12" y="24">µs in one call of the model: above by PyTorch, below tuned</text>',
    ]
    for number, (name, *times) in enumerate(layers):
        top = TOP + number * (2 * BAR + GAP)
        parts.append(
            f'<text x="{LABEL - 8}" y="{top + BAR + 4}" text-anchor="end">{escape(name)}</text>'
        )
        for at, (time_us, colour) in enumerate(zip(times, COLOURS, strict=True)):
            y, length = top + at * BAR, PLOT * time_us / longest
            parts.append(
                f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
                f'<text x="{LABEL + length + 6:.1f}" y="{y + BAR - 2}">{time_us:,.2f}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])

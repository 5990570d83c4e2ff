"""Regret curves as an SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 60, 56, 560, 300, 190, 44
COLOURS = ("#909090", "#4878a8", "#c07830", "#2e8b57", "#8a4fa0", "#202020")
RUNGS = (1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)


def picture(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Return an SVG with a line for each curve.

    The x axis is the trials, from 1. The y axis is the best time over the optimum, on a logarithmic
    scale that begins at 1.
    """
    most = max(len(curve) for curve in curves.values())
    highest = max(max(curve) for curve in curves.values())

    def x(trial: int) -> float:
        return LEFT + WIDTH * (trial - 1) / max(1, most - 1)

    def y(ratio: float) -> float:
        return TOP + HEIGHT * (1 - math.log(ratio) / math.log(max(highest, 1.05)))

    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15">{escape(title)}</text>',
        '<text x="12" y="40" fill="#606060">best time so far over the optimum, logarithmic; '
        "trials</text>",
    ]
    for rung in (rung for rung in RUNGS if rung <= highest):
        parts.append(
            f'<line x1="{LEFT}" y1="{y(rung):.1f}" x2="{LEFT + WIDTH}" y2="{y(rung):.1f}" '
            f'stroke="#dddddd"/><text x="{LEFT - 6}" y="{y(rung) + 4:.1f}" '
            f'text-anchor="end">{rung:g}</text>'
        )
    for trial in (1, *range(16, most + 1, 16)):
        parts.append(
            f'<text x="{x(trial):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{trial}</text>'
        )
    for place, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = " ".join(f"{x(n):.1f},{y(ratio):.1f}" for n, ratio in enumerate(curve, 1))
        at = TOP + 8 + 20 * place
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<line x1="{LEFT + WIDTH + 14}" y1="{at}" x2="{LEFT + WIDTH + 34}" y2="{at}" '
            f'stroke="{colour}" stroke-width="3"/>'
            f'<text x="{LEFT + WIDTH + 40}" y="{at + 4}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])

"""The report of a best: a table for people, a dict for programs."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import templates
from db.contract.best import BestShown
from db.contract.order import PREDICTED
from db.read.in_words import peer_in_words, roofline_in_words
from db.results.best import Best
from db.results.best_fields import best_fields
from templates.arithmetic import Arithmetic
from templates.spaces.knob import brief


def best_json(best: Best) -> dict[str, Any]:
    """Return the best as ``GET /best`` does, but with its artifacts' SHA-256s instead of links.

    The fields ``verified``, ``devices`` and ``neighbour`` are left out.
    """
    answer = BestShown(verified=True, **best_fields([best], arithmetic(best)))
    return answer.model_dump(exclude={"verified", "devices", "neighbour"}) | {
        "artifacts": best.artifacts
    }


def arithmetic(best: Best) -> Arithmetic | None:
    """Return the arithmetic of the best's template; None if this release lacks the template."""
    return templates.arithmetic_of(best.operator, best.device.kind, best.template)


def show_best(best: Best, console: Console) -> None:
    """Print the best's configuration, and a table of its time and those of its baselines."""
    console.print(f"{best.operator} on {best.device.name} ({best.device.arch})")
    if best.search == PREDICTED:
        console.print("predicted, not searched for: `tuner tune` searches", style="yellow")
    knobs = "  ".join(f"{name}={brief(value)}" for name, value in best.config.items())
    console.print(knobs, markup=False, highlight=False, soft_wrap=True)
    table = Table(box=None)
    table.add_column(no_wrap=True)
    for heading in ("warm µs", "speed-up of the best", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column()
    table.add_row("best", f"{best.time_us:.2f}", "", f"{best.max_error:.1e}", style="bold")
    for baseline in best.baselines:
        failure = baseline.get("error") or ""
        table.add_row(
            Text(baseline["name"]),
            _number(baseline["time_us"], ".2f"),
            _number(baseline["speedup"], ".1f"),
            _number(baseline.get("max_error"), ".1e"),
            Text("".join(failure.splitlines()[:1]) or _when(baseline)),
            style="red" if failure else None,
        )
    console.print(table)
    for line in _further_figures(best):
        console.print(line, highlight=False)
    peer = peer_in_words(best.timing, best.time_us, best.baselines)
    if peer is not None:
        console.print(f"{peer}; call that instead", style="bold yellow", markup=False)
    warn_if_noisy(best.timing.get("noise"), console)


def _when(baseline: dict[str, Any]) -> str:
    """Return the day on which an earlier job timed the baseline; empty if this one did."""
    timed = baseline.get("measured_at")
    return f"timed {timed[:10]}" if timed else ""


def warn_if_noisy(noise: dict[str, Any] | None, console: Console) -> None:
    """Print a warning if a time was measured on a machine that was not quiet."""
    if noise and not noise["quiet"]:
        console.print(f"not a quiet machine: {noise['reason']}", style="yellow", markup=False)


def _further_figures(best: Best) -> list[str]:
    """Return lines with further figures of the kernel: call, cold time, threads, roofline."""
    lines = []
    call, cold = best.timing.get("call"), best.timing.get("cold")
    if call:
        lines.append(f"call from Python {call['median_us']:.2f} µs")
    if cold:
        lines.append(f"cold {cold['median_us']:.2f} µs, {best.gflops:.1f} GFLOP/s")
    if best.threads:
        lines.append(f"threads {best.threads}")
    roofline = roofline_in_words(best.roofline, best.device.name)
    if roofline:
        lines.append(roofline)
    named = arithmetic(best)
    if named:
        lines.append(f"arithmetic: {named.kind}: {named.note}")
    return lines


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)

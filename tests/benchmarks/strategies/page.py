"""The page of the comparison."""

from __future__ import annotations

from tests.benchmarks.strategies.compare import COLD, EARLIER_TRIALS, SEEDS, WARM, Row

AT_MOST = 0.5
"""Of random's trials for xgb, and of the cold search's for the warm one."""


def markdown(rows: list[Row], command: str, recorded: list[str]) -> str:
    strategies = list(rows[0].trials)
    lines = [
        "# Search strategies",
        "",
        f"    {command}",
        "",
        f"Trials until one is within 5 % of the optimum, median of {SEEDS} seeds "
        "(in brackets the tenth and the ninetieth percentile), replayed on spaces of which every "
        "configuration was built, checked and timed with a job's builder and runner "
        f"({'; '.join(recorded)}). Nothing is built for this page: "
        "`tests/benchmarks/strategies/replay.py` answers each proposal from the recording, "
        "a job's batch at a time.",
        "",
        f"`{WARM}` begins with {EARLIER_TRIALS} trials of an earlier job of each other shape of "
        "its operator below, on the same device. The constants of `xgb` were chosen on these same "
        "spaces: how it does on others is not measured here.",
        "",
        "| space | configurations | within 5 % | " + " | ".join(strategies) + " |",
        "|---|---|---|" + "---|" * len(strategies),
    ]
    for row in rows:
        shape = " ".join(f"{k}={v}" for k, v in row.workload.items() if k in "MNBCHWK")
        cells = " | ".join(_cell(row.trials[strategy]) for strategy in strategies)
        lines.append(f"| {row.operator} {shape} | {row.configurations} | {row.good} | {cells} |")
    lines += [
        "",
        f"Bars: `{COLD}` needs at most half of what `random` needs, `{WARM}` at most half of "
        f"`{COLD}`.",
        "",
        "| space | xgb / random | warm / cold | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        ratios = row.median(COLD) / row.median("random"), row.median(WARM) / row.median(COLD)
        held = "held" if max(ratios) <= AT_MOST else "**missed**"
        lines.append(f"| {row.name} | {ratios[0]:.2f} | {ratios[1]:.2f} | {held} |")
    lines += [
        "",
        "| space | recorded fastest, µs | median, µs | failed |",
        "|---|---|---|---|",
        *(f"| {r.name} | {r.best_us:.2f} | {r.median_us:.2f} | {r.failed} |" for r in rows),
    ]
    return "\n".join(lines) + "\n"


def _cell(trials: list[int]) -> str:
    tenth, ninetieth = (trials[round(share * (len(trials) - 1))] for share in (0.1, 0.9))
    middle = (trials[(len(trials) - 1) // 2] + trials[len(trials) // 2]) / 2
    return f"**{middle:g}** ({tenth}–{ninetieth})"

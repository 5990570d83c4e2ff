"""The page on predictions, judged on recordings."""

from __future__ import annotations

from typing import Any

import numpy as np

from db.contract.order import PREDICTION
from tests.benchmarks.predicted.judge import TRIALS

BUILT = PREDICTION["trials"]


def markdown(rows: list[dict[str, Any]], trained: dict[str, str], command: str) -> str:
    lines = [
        "# Predictions",
        "",
        f"    {command}",
        "",
        "How close to the best that was recorded for a shape the fastest of the first few "
        "configurations comes that a ranker expects to be fast, which has not learnt from that "
        f"shape: 1 is the recorded best's speed. `match=predicted` builds {BUILT}. Geometric mean "
        "over the shapes, in brackets the worst shape; in the last column as many at random. "
        "Nothing is built for this page: times come from recordings "
        "(`tests/benchmarks/predicted/recordings`, `tests/benchmarks/spaces`).",
        "",
        "`left out`: a ranker for each shape, trained on all others but those of the same lengths "
        "or planes and kernel. The configurations are the "
        "trials of that shape, of which half were spread over its templates and half are children "
        f"of the fastest, so {BUILT} at random do well, too. `part of a space`: the same, of "
        "a shape of which a few values of each knob were combined "
        "(`tests/benchmarks/strategies/samples`). `gradients`: the same, of weight gradients and "
        "of input gradients at strides (`tests/benchmarks/predicted/gradients`), most of whose "
        "configurations were chosen to fill the device or as neighbours of the fastest. "
        "`whole space`: the package's own ranker on every configuration of a space.",
        "",
        "| device | operator | | shapes | "
        + " | ".join(f"first {n}" for n in TRIALS)
        + f" | {BUILT} at random |",
        "|---|---|---|---|" + "---|" * (len(TRIALS) + 1),
    ]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["operator"], row["how"]), []).append(row)
    for (kind, operator, how), members in groups.items():
        reached = [
            _mean([row["reached"][place] for row in members]) for place in range(len(TRIALS))
        ]
        chance = _mean([row["chance"][TRIALS.index(BUILT)] for row in members])
        cells = " | ".join([f"{kind} | {operator} | {how} | {len(members)}", *reached, chance])
        lines.append(f"| {cells} |")
    lines += ["", "What the package's rankers learnt from:", ""]
    lines += [f"- {name}: {what}" for name, what in trained.items()]
    lines += [
        "",
        "Other devices, as an sm_75 GPU or a CPU with AVX2 alone, are ranked by their limits: "
        "no trial of theirs was learnt from, and none was measured.",
    ]
    return "\n".join(lines) + "\n"


def _mean(reached: list[float]) -> str:
    floored = np.maximum(reached, 0.01)  # 0, if no configuration worked, counts as a hundredth
    return f"**{np.exp(np.log(floored).mean()):.2f}** ({min(reached):.2f})"

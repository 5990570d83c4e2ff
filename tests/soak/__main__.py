"""Run a soak: a service and a worker under mixed traffic for an hour, to find what grows or leaks.

python -m tests.soak --write docs/benchmarks/soak
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.soak.idle import REST_SECONDS
from tests.soak.page import figures, markdown
from tests.soak.soak import Plan, soak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    parser.add_argument("--samples", type=Path, help="each sample as a line of JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="convtune-soak-") as name:
        outcome = soak(Path(name), planned(60.0 * options.minutes, options.seed), _say)
    made = figures(
        outcome, f"python -m tests.soak --minutes {options.minutes:g} --seed {options.seed}"
    )
    page = markdown(made)
    _say(page)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(page)
    if options.samples:
        lines = (json.dumps(asdict(sample)) + "\n" for sample in outcome.samples)
        options.samples.write_text("".join(lines))
    if made["missed"]:
        sys.exit("; ".join(made["missed"]))


def planned(seconds: float, seed: int) -> Plan:
    """Return the plan of a soak of so many seconds.

    The first rest comes after 3 minutes of traffic or less. Worker B lives for up to 90 s, which
    is time enough to start and to run jobs.
    """
    return Plan(
        seconds=seconds,
        seed=seed,
        warm_seconds=min(180.0, max(15.0, seconds / 20)),
        first_rest_seconds=REST_SECONDS,
        calm_seconds=min(90.0, max(20.0, seconds / 20)),
        interval=min(4.0, max(1.0, seconds / 300)),
    )


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()

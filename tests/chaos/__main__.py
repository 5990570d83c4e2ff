"""Run the long form of the chaos suite, on SQLite and on a private PostgreSQL.

python -m tests.chaos --write docs/benchmarks/chaos
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.chaos.damage import harm
from tests.chaos.page import page
from tests.chaos.storms import Counts, storms
from tuner.device import cpu_facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in vars(Counts()).items():
        parser.add_argument(f"--{name}", type=int, default=count, help=Counts.MEANING[name])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="storms whose name has this in it")
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    counts = Counts(**{name: getattr(options, name) for name in vars(Counts())})
    found = []
    for storm in storms(counts, options.seed):
        if options.only not in storm.name:
            continue
        begun = time.monotonic()
        damage = storm.run()
        entry = {
            "storm": storm.name,
            "seconds": round(time.monotonic() - begun, 1),
            "harm": harm(damage, storm.blows),
            "damage": damage.to_json(),
        }
        found.append(entry)
        print(f"{storm.name}, {entry['seconds']} s: {entry['harm'] or 'no harm'}", flush=True)
    device = cpu_facts.device()
    result = {
        "command": "python -m tests.chaos "
        + " ".join(f"--{name} {count}" for name, count in vars(counts).items())
        + f" --seed {options.seed}",
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "storms": found,
    }
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(page(result))
    if not found or any(entry["harm"] for entry in found):
        sys.exit("something was harmed, or nothing was tried")


if __name__ == "__main__":
    main()

"""Search strategies compared on recorded spaces: trials until within 5 % of the optimum.

python -m tests.benchmarks.strategies compare --write docs/benchmarks/strategies
python -m tests.benchmarks.strategies record conv1d-1024x64
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks.predicted.record import record as record_trials
from tests.benchmarks.predicted.record import recordings
from tests.benchmarks.predicted.trials import Recorded
from tests.benchmarks.strategies.compare import compared
from tests.benchmarks.strategies.page import markdown
from tests.benchmarks.strategies.record import SHAPES, record
from tests.benchmarks.strategies.recording import FOLDER, Recording, load, names
from tests.benchmarks.strategies.shapes import CHOSEN_ON, JUDGED_ON, workload
from tests.benchmarks.strategies.subgrids import Subgrids
from tests.benchmarks.tuned import write
from tuner.build.builder import Builder
from tuner.device.detect import detect

AT_ONCE = 16
"""Builds of a shape that are begun together."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    comparing = commands.add_parser("compare", help="replay all recorded spaces")
    comparing.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    comparing.set_defaults(run=_compare)
    recording = commands.add_parser("record", help="measure whole spaces on this machine's CPU")
    recording.add_argument("names", nargs="*", default=list(SHAPES), metavar="NAME")
    recording.add_argument("--builders", type=int, default=1, help="processes that build")
    recording.set_defaults(run=_record)
    sampling = commands.add_parser("sample", help="measure parts of large spaces")
    sampling.add_argument("names", nargs="*", metavar="NAME", help="all shapes unless named")
    sampling.add_argument("--target", choices=list(JUDGED_ON), required=True)
    sampling.add_argument("--seconds", type=float, default=200.0, help="for all of them")
    sampling.add_argument("--trials", type=int, default=1000, help="of each shape, at most")
    sampling.add_argument("--builders", type=int, default=1, help="processes that build")
    sampling.add_argument("--write", type=Path, required=True)
    sampling.set_defaults(run=_sample)
    options = parser.parse_args()
    options.run(options)


def _compare(options: argparse.Namespace) -> None:
    rows = [compared(name) for name in names()]
    command = "python -m tests.benchmarks.strategies compare"
    text = markdown(rows, command, sorted({_told(load(name)) for name in names()}))
    print(text)
    if options.write:
        write(options.write, {"command": command, "rows": [asdict(row) for row in rows]}, text)


def _told(recording: Recording) -> str:
    device = recording.device
    return f"{device['name']} ({device['arch']}), {device['driver']}, {recording.date}"


def _record(options: argparse.Namespace) -> None:
    device = detect("cpu")
    for name in options.names:
        made = record(name, device, options.builders)
        made.save(FOLDER / f"{name}.json.gz")
        failed = sum(time_us is None for time_us in made.times)
        print(f"\r{name}: {len(made.times)} configurations, {failed} failed", file=sys.stderr)


def _sample(options: argparse.Namespace) -> None:
    device = detect(options.target)
    shapes = JUDGED_ON[options.target] | CHOSEN_ON[options.target]
    chosen = [workload(*shapes[name]) for name in options.names or shapes]
    batches = [AT_ONCE] * math.ceil(options.trials / AT_ONCE)
    until = time.monotonic() + options.seconds

    def keep(made: list[Recorded]) -> None:
        recordings(device, made).save(options.write)

    with Builder(options.builders) as builder:
        keep(
            record_trials(
                chosen, device, builder, Subgrids, batches, until, settle_seconds=0, keep=keep
            )
        )


if __name__ == "__main__":
    main()

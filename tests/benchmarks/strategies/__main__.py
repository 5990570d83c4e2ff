"""Benchmark of search strategies on recorded spaces: trials until within 5 % of the optimum.

python -m tests.benchmarks.strategies compare --write docs/benchmarks/strategies
python -m tests.benchmarks.strategies record conv1d-1024x64
python -m tests.benchmarks.strategies sample NAME... --target cuda --seconds 300 --trials 480 \
    --builders 30 --write tests/benchmarks/strategies/judged/h100.json.gz
python -m tests.benchmarks.strategies sample NAME... --target cpu --seconds 2400 --trials 384 \
    --write tests/benchmarks/strategies/judged/znver4.json.gz
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.predicted.record import record as record_trials
from tests.benchmarks.predicted.record import recordings
from tests.benchmarks.predicted.trials import Recorded
from tests.benchmarks.strategies.compare import SEEDS, compared
from tests.benchmarks.strategies.live import live
from tests.benchmarks.strategies.page import markdown, mean_curves
from tests.benchmarks.strategies.picture import picture
from tests.benchmarks.strategies.record import record
from tests.benchmarks.strategies.recording import FOLDER, Known, names
from tests.benchmarks.strategies.searches import searches
from tests.benchmarks.strategies.shapes import CHOSEN_ON, JUDGED_ON, listed, recorded, workload
from tests.benchmarks.strategies.subgrids import Subgrids
from tests.benchmarks.tuned import write
from tuner.build.builder import Builder
from tuner.compare.comparison import SETTLE_SECONDS
from tuner.device.detect import detect

AT_ONCE = 16
"""The number of a shape's builds that begin together."""
ROUGH = {"cpu": SETTLE_SECONDS, "cuda": 0.0}
"""The runner's ``settle_seconds`` by kind of device. With 0, times are rough: two samples are
enough on a GPU, but not on a CPU."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    comparing = commands.add_parser("compare", help="replay all recorded spaces")
    comparing.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    comparing.add_argument("--seeds", type=int, default=SEEDS)
    comparing.set_defaults(run=_compare)
    recording = commands.add_parser("record", help="measure whole spaces on this machine's CPU")
    recording.add_argument("names", nargs="*", default=names(), metavar="NAME")
    recording.add_argument("--builders", type=int, default=1, help="processes that build")
    recording.set_defaults(run=_record)
    sampling = commands.add_parser("sample", help="measure parts of large spaces")
    sampling.add_argument("names", nargs="+", metavar="NAME")
    sampling.add_argument("--target", choices=list(JUDGED_ON), required=True)
    sampling.add_argument("--seconds", type=float, default=200.0, help="for all of them")
    sampling.add_argument("--trials", type=int, default=1000, help="of each shape, at most")
    sampling.add_argument("--builders", type=int, default=1, help="processes that build")
    sampling.add_argument("--write", type=Path, required=True)
    sampling.set_defaults(run=_sample)
    searching = commands.add_parser("live", help="search a whole space on this machine")
    searching.add_argument("name", metavar="NAME")
    searching.add_argument("--target", choices=list(JUDGED_ON), required=True)
    searching.add_argument("--trials", type=int, default=256, help="of each search")
    searching.add_argument("--guided", type=int, default=5, help="searches with a ranker")
    searching.add_argument("--alone", type=int, default=3, help="searches without")
    searching.add_argument("--seconds", type=float, default=3600.0, help="at most")
    searching.add_argument("--builders", type=int, default=1, help="processes that build")
    searching.add_argument("--write", type=Path, required=True, help="a folder")
    searching.set_defaults(run=_live)
    options = parser.parse_args()
    options.run(options)


def _compare(options: argparse.Namespace) -> None:
    rows = []
    for kind, name in listed():
        rows.append(compared(kind, name, seeds=options.seeds))
        print(f"\r{len(rows)} {kind} {name}", end="", file=sys.stderr, flush=True)
    command = f"python -m tests.benchmarks.strategies compare --seeds {options.seeds}"
    told = sorted({_told(recorded(row.kind, row.name)) for row in rows})
    name = f"{options.write.name if options.write else 'strategies'}.svg"
    text = markdown(rows, searches(), command, told, options.seeds, name)
    print(text)
    if options.write:
        write(options.write, {"command": command, "rows": [asdict(row) for row in rows]}, text)
        curves = mean_curves([row for row in rows if row.judged])
        title = "Left-out shapes, geometric mean"
        options.write.with_name(name).write_text(picture(title, curves))


def _told(recording: Known) -> str:
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
    chosen = [workload(*shapes[name]) for name in options.names]
    batches = [AT_ONCE] * math.ceil(options.trials / AT_ONCE)
    until = time.monotonic() + options.seconds

    def keep(made: list[Recorded]) -> None:
        recordings(device, made).save(options.write)

    with Builder(options.builders) as builder:
        keep(
            record_trials(
                chosen,
                device,
                builder,
                Subgrids,
                batches,
                until,
                settle_seconds=ROUGH[device.kind],
                keep=keep,
            )
        )


def _live(options: argparse.Namespace) -> None:
    device = detect(options.target)
    until = time.monotonic() + options.seconds
    shape = workload(*(JUDGED_ON[options.target] | CHOSEN_ON[options.target])[options.name])
    seeds = [(True, seed) for seed in range(options.guided)]
    seeds += [(False, seed) for seed in range(options.alone)]
    with Builder(options.builders) as builder:
        runs, times, plan = live(shape, device, builder, seeds, options.trials, until)
    for run in runs:
        worked = [math.inf if time_us is None else time_us for time_us in run.times]
        told = " ".join(
            f"{count}: {min(worked[:count]):.2f}"
            for count in (16, 32, 64, 128, 256, 512)
            if count <= len(worked)
        )
        print(
            f"{'guided' if run.guided else 'alone'} seed {run.seed}: {len(worked)} trials, {told}"
        )
    made = {
        "device": device.fingerprint(),
        "date": datetime.now(UTC).date().isoformat(),
        "operator": shape.operator,
        "workload": shape.explicit_fields,
        "configurations": len(plan.space),
        "runs": [
            {
                "guided": run.guided,
                "seed": run.seed,
                "times": [t and float(f"{t:.5g}") for t in run.times],
            }
            for run in runs
        ],
    }
    options.write.mkdir(parents=True, exist_ok=True)
    (options.write / f"{options.name}.json").write_text(json.dumps(made))
    trials = [(plan.space[index], time_us) for index, time_us in times.items()]
    recordings(device, [Recorded.of(shape, trials)]).save(
        options.write / f"{options.name}.trials.json.gz"
    )


if __name__ == "__main__":
    main()

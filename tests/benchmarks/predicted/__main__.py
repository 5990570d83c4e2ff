"""Record trials, train the rankers of ``match=predicted`` on them, and judge the rankers on
recordings and live.

python -m tests.benchmarks.predicted record --target cuda --trials 40 --builders 14 \
    --write tests/benchmarks/predicted/recordings/h200.json.gz
python -m tests.benchmarks.predicted record --target cuda --draw rare --builders 14 \
    --write tests/benchmarks/predicted/recordings/h200-rare.json.gz
python -m tests.benchmarks.predicted record --target cuda --draw channels --seconds 125 \
    --builders 15 --write tests/benchmarks/predicted/recordings/h100-channels.json.gz
python -m tests.benchmarks.predicted gather
python -m tests.benchmarks.predicted train
python -m tests.benchmarks.predicted judge --write docs/benchmarks/predicted
python -m tests.benchmarks.predicted live --target cuda --seconds 400 --write part1
python -m tests.benchmarks.predicted live --target cuda --skip part1.json --write part2
python -m tests.benchmarks.predicted live --merge part1.json part2.json \
    --write docs/benchmarks/predicted-live
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from templates import operators
from tests.benchmarks.parts import add_arguments, read
from tests.benchmarks.predicted import live, live_page
from tests.benchmarks.predicted.finalists import gathered
from tests.benchmarks.predicted.judge import left_out, whole_space
from tests.benchmarks.predicted.known import known, known_gradients
from tests.benchmarks.predicted.page import markdown
from tests.benchmarks.predicted.record import Sampled, record, recordings
from tests.benchmarks.predicted.shapes import DRAWS, RECORDED, TO_PREDICT, to_learn
from tests.benchmarks.predicted.train import Example, train
from tests.benchmarks.predicted.trials import FOLDER, Recordings
from tests.benchmarks.strategies.recording import load, names, samples
from tests.benchmarks.tuned import write
from tuner.build.builder import Builder
from tuner.device.detect import detect
from tuner.plan.ranker import path_of, pretrained

KINDS = ("cpu", "cuda")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record", help="measure trials of shapes to learn from")
    recording.add_argument("--target", choices=KINDS, required=True)
    recording.add_argument("--shapes", type=int, default=RECORDED)
    recording.add_argument("--draw", choices=DRAWS, default="all")
    recording.add_argument("--trials", type=int, default=32, help="of each shape")
    recording.add_argument("--seconds", type=float, default=3600.0, help="at most")
    recording.add_argument("--builders", type=int, default=1, help="processes that build")
    recording.add_argument(
        "--skip", nargs="+", type=Path, default=[], metavar="FILE", help="not what these have"
    )
    recording.add_argument("--write", type=Path, required=True)
    recording.set_defaults(run=_record)
    gathering = commands.add_parser("gather", help="take the finalists of other pages' jobs, too")
    gathering.set_defaults(run=_gather)
    training = commands.add_parser("train", help="make the package's rankers")
    training.set_defaults(run=_train)
    judging = commands.add_parser("judge", help="judge them on shapes that are left out")
    judging.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    judging.set_defaults(run=_judge)
    living = commands.add_parser("live", help="compare answers with searches of the same shapes")
    add_arguments(living, trials=256)
    living.add_argument("--shapes", type=int, default=TO_PREDICT)
    living.add_argument("--seed", type=int, default=1, help="of each search")
    living.set_defaults(run=_live)
    options = parser.parse_args()
    options.run(options)


def _record(options: argparse.Namespace) -> None:
    device = detect(options.target)
    until = time.monotonic() + options.seconds
    skipped = {each.shape.key for path in options.skip for each in Recordings.load(path).shapes}
    drawn = to_learn(options.target, options.shapes, options.draw)
    shapes = [each for each in drawn if each.key not in skipped]
    halves = [options.trials - options.trials // 2, options.trials // 2]
    with Builder(options.builders) as builder:
        made = record(shapes, device, builder, Sampled, halves, until)
    recordings(device, made).save(options.write)


def _gather(_: argparse.Namespace) -> None:
    for kind in KINDS:
        gathered(kind).save(FOLDER / f"finalists-{kind}.json.gz")


def _train(_: argparse.Namespace) -> None:
    for operator in operators():
        for kind in KINDS:
            for gradients, learnt in _learnt(operator.name, kind):
                made = train(learnt)
                path = path_of(operator.name, kind, gradients=gradients)
                made.save(path)
                print(f"{path.name}, {path.stat().st_size} bytes: {made.trained_on}")


def _learnt(operator: str, kind: str) -> list[tuple[bool, list[Example]]]:
    """Return (whether they are gradients, examples to learn from), without empty ones."""
    found = [(False, known(operator, kind)), (True, known_gradients(operator, kind))]
    return [(gradients, learnt) for gradients, learnt in found if learnt]


def _judge(options: argparse.Namespace) -> None:
    rows = []
    for kind in KINDS:
        for operator in operators():
            for gradients, learnt in _learnt(operator.name, kind):
                recorded = [n for n, each in enumerate(learnt) if len(each.shape.trials) >= 20]
                for place in recorded:
                    shape = learnt[place].shape.shape
                    part = f"{kind} {shape.key}" in samples()
                    how = "gradients" if gradients else "part of a space" if part else "left out"
                    rows.append({"kind": kind, "how": how, **asdict(left_out(learnt, place))})
                    print(f"\r{kind} {operator.name} {len(rows)}", end="", file=sys.stderr)
            for name in names() if kind == "cpu" else ():
                own = pretrained(operator.name, kind)
                if load(name).operator == operator.name and own is not None:
                    judged = whole_space(own, load(name))
                    rows.append({"kind": kind, "how": "whole space", **asdict(judged)})
    trained = {
        f"{operator.name}{', gradients,' if gradients else ''} on {kind}": found.trained_on
        for operator in operators()
        for kind in KINDS
        for gradients in (False, True)
        if (found := pretrained(operator.name, kind, gradients=gradients)) is not None
    }
    command = "python -m tests.benchmarks.predicted judge"
    text = markdown(rows, trained, command)
    print(text)
    if options.write:
        write(options.write, {"command": command, "trained": trained, "rows": rows}, text)


def _live(options: argparse.Namespace) -> None:
    def told(part: dict[str, Any]) -> str:
        result = live.merged([part])
        text = live_page.markdown(result)
        if options.write:
            bars = [each.to_json() for each in live_page.verdicts(result)]
            write(options.write, result | {"bars": bars}, text)
        return text

    if options.merge:
        print(told(live.merged(read(options.merge))))
    else:
        print(told(live.live(detect(options.target), options, told)))


if __name__ == "__main__":
    main()

"""The command ``steps``: measure one network's row, and write it after each part."""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import structlog

from tests.benchmarks.device import device_of
from tests.benchmarks.training.steps.measured import Row, Steps
from tests.benchmarks.training.steps.page import markdown
from tests.benchmarks.training.steps.step import Case
from tests.benchmarks.tuned import provenance, write
from tuner.client.local import Local

TIMM = "timm:"


def run(options: argparse.Namespace) -> None:
    """Measure a network as the options say and print the page. Exit if timm does not have the
    network."""
    if not options.network.startswith(TIMM):
        raise SystemExit(f"--network is {options.network!r}, and must be {TIMM}NAME")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    network = options.network.removeprefix(TIMM)
    case = Case(network, options.batch, options.size, options.device)
    ran = provenance(_command(options), device_of(options.device))
    ran["peers"]["timm"] = __import__("timm").__version__

    def keep(row: Row) -> None:
        if options.write:
            result = _merged(row, ran, options.write)
            write(options.write, result, markdown(result))

    with tempfile.TemporaryDirectory(prefix="convtune-steps-") as folder:
        os.environ["TUNER_DATABASE_URL"] = options.database or f"sqlite:///{folder}/steps.db"
        with Local() as source:
            steps = Steps(case, source, keep)
            trials = None if options.no_tune else options.trials
            steps.measure(trials, options.budget, options.seconds, options.curve)
    print(markdown({"runs": [ran], "rows": [steps.row | {"run": 0}]}))


def _merged(row: Row, ran: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a result with this row and the rows of other networks that the file has.

    Each row has the number of the run that measured it; runs without a row are left out.
    """
    file = path.with_name(path.name + ".json")
    before = json.loads(file.read_text()) if file.exists() else {"runs": [], "rows": []}
    rows = [each for each in before["rows"] if each["name"] != row["name"]]
    runs = [each for at, each in enumerate(before["runs"]) if any(r["run"] == at for r in rows)]
    places = {before["runs"].index(each): at for at, each in enumerate(runs)}
    kept = [each | {"run": places[each["run"]]} for each in rows]
    return {"runs": [*runs, ran], "rows": [*kept, row | {"run": len(runs)}]}


def _command(options: argparse.Namespace) -> str:
    said = f"--network {options.network} --batch {options.batch} --device {options.device}"
    size = "" if options.size is None else f" --size {options.size}"
    search = " --no-tune" if options.no_tune else f" --trials {options.trials}"
    return f"python -m tests.benchmarks.training steps {said}{size}{search}"

"""A network's training step by PyTorch alone and with tuned layers, in one process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.benchmarks.models.measured import seconds_of_jobs
from tests.benchmarks.models.ways import on_cpu, on_cuda
from tests.benchmarks.training.steps.kernels import profiled
from tests.benchmarks.training.steps.step import Case, Training
from tuner.client.local import Local
from tuner.errors import ModelFailed
from tuner.torch import capture, optimize_

PYTORCH, TUNED = "PyTorch", "optimize_"
TURNS, IN_A_ROW = 20, 3
WARM_UP_STEPS = 5
SHARE = 0.5
"""Of the seconds that there are, for all searches together."""

Row = dict[str, Any]


class Steps:
    """Fills a row of the result part by part; ``keep`` is given the row after each."""

    def __init__(self, case: Case, source: Local, keep: Callable[[Row], object]) -> None:
        self._case, self._source, self._keep = case, source, keep
        self.row: Row = {"name": case.name, **vars(case), "seconds": {}}

    def measure(self, trials: int, seconds: float, curve: int) -> None:
        if self._case.device == "cuda":
            torch.backends.cudnn.benchmark = True
        with self._part("networks"):
            own, tuned = Training.of(self._case), Training.of(self._case)
        with self._part("tune"):
            self._tune(tuned, trials, seconds * SHARE)
        with self._part("optimize_"), tuned.autocast():
            report = optimize_(tuned.model, tuned.images, source=self._source, mode="training")
            self.row["report"] = json.loads(report.to_json())
        print(report, flush=True)
        both = {PYTORCH: own, TUNED: tuned}
        self.row["graphs"] = {}
        for name, training in both.items():
            with self._part(f"compile {name}"):
                self.row["graphs"][name] = compiled(training)
        with self._part("turns"):
            self.row["ms"] = in_turns(both, self._case.device)
        with self._part("profiles"):
            self.row["kernels"] = {
                name: profiled(training.step, self._case.device) for name, training in both.items()
            }
        self.row["curves"] = {}
        for name in (PYTORCH, TUNED, PYTORCH, TUNED):
            again = " again" if name in self.row["curves"] else ""
            with self._part(f"curve of {name}{again}"):
                self.row["curves"][name + again] = both[name].curve(curve)
        own.run_eager()
        with self._part(f"curve of {PYTORCH}, eager"):
            self.row["curves"][f"{PYTORCH}, eager"] = own.curve(curve)

    def _tune(self, training: Training, trials: int, seconds: float) -> None:
        """One order of what the layers need; those come first in which most is read and
        written."""
        with training.autocast():
            found = capture(training.model, training.images, mode="training")
        orders = [each for each in found if each.workload is not None]
        orders.sort(key=lambda each: -each.calls * each.workload.bytes)
        self.row["workloads"] = [[each.workload.key, each.calls] for each in orders]
        self._keep(self.row)
        try:
            self._source.tune_model(
                self._case.network,
                [each.order for each in orders],
                target=self._case.device,
                trials=trials,
                budget_seconds=seconds / len(orders),
                baselines="pytorch",
            )
        except ModelFailed as error:
            self.row["failed"] = str(error)
        keys = {each.workload.key for each in orders}
        self.row["jobs_s"] = seconds_of_jobs(keys, self._source)

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.row["seconds"][name] = time.monotonic() - begun
        print(f"{self._case.name}: {name} {self.row['seconds'][name]:.1f} s", flush=True)
        self._keep(self.row)


def compiled(training: Training) -> dict[str, int]:
    """Warm, and of how many graphs it is, with how many breaks."""
    counters = torch._dynamo.utils.counters
    counters.clear()
    training.compile()
    for _ in range(WARM_UP_STEPS):
        training.step()
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
    }


def in_turns(trainings: dict[str, Training], device: str) -> dict[str, list[float]]:
    """Each one's milliseconds of a step: samples of a few in a row, taken in turns."""
    measure = on_cuda if device == "cuda" else on_cpu
    samples: dict[str, list[float]] = {name: [] for name in trainings}
    for _ in range(TURNS):
        for name, training in trainings.items():
            samples[name].append(1e3 * measure(training.step, IN_A_ROW))
    return samples

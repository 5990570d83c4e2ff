"""Measure a network's training step by PyTorch alone and with tuned layers, in one process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from tests.benchmarks.models.measured import seconds_of_jobs
from tests.benchmarks.models.ways import on_cpu, on_cuda
from tests.benchmarks.training.steps.kernels import profiled
from tests.benchmarks.training.steps.step import Case, Training
from tuner.client.local import Local
from tuner.errors import ModelFailed
from tuner.measure.noise import OtherLoad
from tuner.torch import capture, optimize_
from tuner.torch.model.capture import Captured

PYTORCH, TUNED = "PyTorch", "optimize_"
LESS_OVERHEAD = "reduce-overhead"
"""The mode of ``torch.compile`` in which CUDA graphs launch the kernels."""
TURNS, IN_A_ROW = 20, 3
SEEDS = 3
LEFT_SECONDS = 15
"""The time that is left for the parts after the curves."""
WARM_UP_STEPS = 5
SHARE = 0.5
"""The share of the whole time that all searches together may take."""

Row = dict[str, Any]


class Steps:
    """The measurement of one network. It fills ``row`` part by part and calls ``keep`` with the row
    after each part."""

    def __init__(self, case: Case, source: Local, keep: Callable[[Row], object]) -> None:
        self._case, self._source, self._keep = case, source, keep
        self.row: Row = {"name": case.name, **vars(case), "seconds": {}}

    def measure(self, trials: int | None, budget: float | None, seconds: float, curve: int) -> None:
        """Measure everything within about ``seconds``.

        ``trials`` are those of each search; with None, nothing is tuned and stored bests are used.
        ``budget`` is the seconds of each search, None for an equal share. ``curve`` is the number
        of steps of a curve of losses; with 0 there are no curves.
        """
        ends = time.monotonic() + seconds
        if self._case.device == "cuda":
            torch.backends.cudnn.benchmark = True
        with self._part("networks"):
            own, tuned = Training.of(self._case), Training.of(self._case)
        with self._part("tune"):
            self._tune(tuned, trials, budget, seconds * SHARE)
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
            self.row["host"], others = (
                {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
                OtherLoad(),
            )
            steps = {name: each.step for name, each in both.items()}
            self.row["ms"] = in_turns(steps, self._case.device)
            self.row["host"]["others"] = others.load()
        with self._part("profiles"):
            self.row["kernels"] = {
                name: profiled(training.step, self._case.device) for name, training in both.items()
            }
        if curve:
            self._curves(own, tuned, curve, ends)
        if self._case.device == "cuda":
            with self._part("captured"):
                graphs = {name: each.captured() for name, each in both.items()}
                self.row["captured_ms"] = in_turns(graphs, self._case.device)
            del graphs
            for name, training in both.items():
                with self._part(f"compile {name}, {LESS_OVERHEAD}"):
                    training.restart()
                    compiled(training, LESS_OVERHEAD)
            self.row["less_overhead_ms"] = in_turns(steps, self._case.device)
            self._keep(self.row)

    def _curves(self, own: Training, tuned: Training, steps: int, ends: float) -> None:
        """Record loss curves for as many seeds as there is time for: of PyTorch in several right
        ways, and of the tuned network."""
        with self._part(f"compile {PYTORCH}, NCHW"):
            planes = Training.of(self._case, channels_last=False)
            planes.compile()
            planes.step()
        ways: dict[str, Callable[[], list[float]]] = {
            f"{PYTORCH}, compiled": partial(own.curve, steps),
            f"{TUNED}, compiled": partial(tuned.curve, steps),
            f"{PYTORCH}, eager": partial(own.curve, steps, eager=True),
            f"{TUNED}, eager": partial(tuned.curve, steps, eager=True),
            f"{PYTORCH}, compiled, NCHW": partial(planes.curve, steps),
            f"{PYTORCH}, eager, NCHW": partial(planes.curve, steps, eager=True),
            f"{PYTORCH}, eager, without cudnn.benchmark": partial(without_benchmark, own, steps),
        }
        self.row["curves"], longest = {}, 0.0
        for seed in range(SEEDS):
            begun = time.monotonic()
            if begun + longest + LEFT_SECONDS > ends:
                break
            first = Training.of(self._case, seed)
            for each in (own, tuned, planes):
                each.begin_from(first)
            curves: dict[str, list[float]] = {}
            for name, curve in ways.items():
                with self._part(f"seed {seed}: {name}"):
                    curves[name] = curve()
            self.row["curves"][str(seed)] = curves
            longest = max(longest, time.monotonic() - begun)
            self._keep(self.row)

    def _tune(
        self, training: Training, trials: int | None, budget: float | None, seconds: float
    ) -> None:
        """Order the workloads of all layers as one model. Workloads that read and write the most
        bytes in all calls come first."""
        with training.autocast():
            found = capture(training.model, training.images, mode="training")
        orders = [each for each in found if each.workload is not None]
        orders.sort(key=lambda each: -each.calls * each.workload.bytes)
        self.row["workloads"] = [[each.workload.key, each.calls] for each in orders]
        self._keep(self.row)
        keys = {each.workload.key for each in orders}
        if trials is not None:
            self._search(orders, trials, budget or seconds / len(orders))
        self.row["jobs_s"] = seconds_of_jobs(keys, self._source)

    def _search(self, orders: list[Captured], trials: int, budget: float) -> None:
        try:
            self._source.tune_model(
                self._case.network,
                [each.order for each in orders],
                target=self._case.device,
                trials=trials,
                budget_seconds=budget,
                baselines="pytorch",
            )
        except ModelFailed as error:
            self.row["failed"] = str(error)

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.row["seconds"][name] = time.monotonic() - begun
        print(f"{self._case.name}: {name} {self.row['seconds'][name]:.1f} s", flush=True)
        self._keep(self.row)


def compiled(training: Training, mode: str = "default") -> dict[str, int]:
    """Compile a training in a mode of ``torch.compile`` and warm it up. Return the numbers of its
    graphs and graph breaks."""
    counters = torch._dynamo.utils.counters
    counters.clear()
    training.compile(mode)
    for _ in range(WARM_UP_STEPS):
        training.step()
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
    }


def in_turns(calls: dict[str, Callable[[], object]], device: str) -> dict[str, list[float]]:
    """Return the milliseconds of a step by name: ``TURNS`` samples, each the mean of ``IN_A_ROW``
    steps, taken in turns."""
    measure = on_cuda if device == "cuda" else on_cpu
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            samples[name].append(1e3 * measure(call, IN_A_ROW))
    return samples


def without_benchmark(training: Training, steps: int) -> list[float]:
    """Return a curve of eager steps with the algorithms that cuDNN chooses without timing them."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        return training.curve(steps, eager=True)
    finally:
        torch.backends.cudnn.benchmark = before

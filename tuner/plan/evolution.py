"""MetaSchedule's evolutionary search with its own cost model, behind an ask-and-tell interface.

It runs in a child process of its own, because it takes all cores for seconds and registers the
intrinsics of one device only. It only proposes: the worker builds, checks and times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import templates
from templates.errors import InvalidConfig
from templates.records.replay import trace_text
from templates.records.trace import Trace
from tuner.device.device import Device
from tuner.plan.intrinsics import register_intrinsics

Config = dict[str, Any]

GENERATION = 16
"""How many proposals one evolution makes, and how many results the cost model needs before it is
trusted. MetaSchedule's own numbers, 64 and 100, are for searches of thousands of trials."""
MAX_EMPTY_GENERATIONS = 3
"""The search ends after this number of generations in a row without a new proposal."""
ENDLESS = 2**31 - 1


@dataclass(frozen=True)
class Setup:
    """The parameters of a search; ``target`` is TVM's target as JSON.

    The same ``seed`` and results give the same proposals only if ``threads`` is 1: several threads
    draw MetaSchedule's random numbers in any order.
    """

    workload_key: str
    target: str
    seed: int
    threads: int


def search_target(device: Device) -> dict[str, Any]:
    """Return the device's target as MetaSchedule's rules need it, with the number of cores."""
    target = dict(device.target)
    if device.kind == "cpu":
        target["num-cores"] = device.limits.units
    return target


def propose(setup: Setup, told: Sequence[tuple[Config, float | None]], count: int) -> list[Config]:
    """Return the next configurations to try, none twice.

    There are fewer than ``count``, in the end none, if the search finds nothing new. ``told`` are
    the results since the last call: pairs of a configuration and its time in µs, None if it failed.
    The process remembers earlier results as long as ``setup`` is the same.
    """
    search = _search(setup)
    search.tell(told)
    return search.ask(count)


@lru_cache(maxsize=1)
def _search(setup: Setup) -> Evolution:
    return Evolution(setup)


class Evolution:
    """MetaSchedule's search for one workload, with an ask-and-tell interface."""

    def __init__(self, setup: Setup) -> None:
        import numpy as np
        import tvm
        from tvm.s_tir import meta_schedule
        from tvm.s_tir.meta_schedule.cost_model import XGBModel
        from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig

        np.random.seed(setup.seed % 2**32)  # the cost model draws from it
        self._template = Trace()
        self._workload = templates.parse_key(setup.workload_key)
        self._target = tvm.target.Target(json.loads(setup.target))
        register_intrinsics(self._target.kind.name)
        module = tvm.IRModule({"main": self._template.computation(self._workload, {})})
        self._arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(module["main"])
        self._context = meta_schedule.TuneContext(
            module,
            target=self._target,
            space_generator="post-order-apply",
            search_strategy="evolutionary",
            num_threads=setup.threads,
            rand_state=1 + setup.seed % (2**31 - 2),
        )
        self._model = XGBModel(
            config=XGBConfig(nthread=setup.threads), num_warmup_samples=GENERATION
        )
        self._database = meta_schedule.database.MemoryDatabase()
        self._stored = self._database.commit_workload(module)
        self._context.pre_tuning(
            ENDLESS, GENERATION, database=self._database, cost_model=self._model
        )
        self._ready: list[Config] = []
        self._asked: dict[str, Any] = {}  # candidates whose results are awaited, by trace
        self._seen: set[str] = set()

    def ask(self, count: int) -> list[Config]:
        """Return up to ``count`` new configurations; none if several evolutions found none."""
        empty = 0
        while len(self._ready) < count and empty < MAX_EMPTY_GENERATIONS:
            empty = 0 if self._generate() else empty + 1
        asked, self._ready = self._ready[:count], self._ready[count:]
        return asked

    def _generate(self) -> bool:
        """Run one evolution; return whether it proposed anything new."""
        fresh = False
        for candidate in self._context.generate_measure_candidates() or ():
            config = self._template.config(trace_text(candidate.sch.trace))
            if config["trace"] not in self._seen:
                self._seen.add(config["trace"])
                self._asked[config["trace"]] = candidate
                self._ready.append(config)
                fresh = True
        return fresh

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Give the search results of any origin: times in µs, None for a failed configuration.

        A configuration that is no trace of this workload is skipped. A failure that this process
        did not propose is only marked as seen, because replaying its trace might fail here, too.
        """
        from tvm.s_tir.meta_schedule.database import TuningRecord
        from tvm.s_tir.meta_schedule.runner import RunnerResult

        candidates, measured = [], []
        for config, time_us in results:
            self._seen.add(config["trace"])
            if time_us is None and config["trace"] not in self._asked:
                continue
            try:
                candidate = self._candidate(config)
            except InvalidConfig:
                continue
            candidates.append(candidate)
            if time_us is None:
                measured.append(RunnerResult(None, "it failed"))
                continue
            seconds = [time_us * 1e-6]
            measured.append(RunnerResult(seconds, None))
            self._database.commit_tuning_record(
                TuningRecord(
                    candidate.sch.trace, self._stored, seconds, self._target, self._arguments
                )
            )
        self._model.update(self._context, candidates, measured)

    def _candidate(self, config: Config) -> Any:
        from tvm.s_tir.meta_schedule import MeasureCandidate

        asked = self._asked.pop(config["trace"], None)
        if asked is not None:
            return asked
        return MeasureCandidate(self._template.schedule(self._workload, config), self._arguments)

"""The plan of a job: the templates that serve its workload, their joint space, and the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import templates
from db.queue.history import PastTrial
from templates.errors import InvalidConfig
from templates.naive import NAME as NAIVE
from templates.naive import NaiveOnCpu, NaiveOnCuda, naive_on
from templates.records.trace import Trace
from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from templates.template import Template
from templates.workload import Workload
from tuner import search
from tuner.build.compile import EMPTY, EMPTY_WORKLOAD, BuildOrder, program_of
from tuner.device.device import Device
from tuner.errors import NothingWorked
from tuner.plan.ranker import Ranker, pretrained

Config = dict[str, Any]
Program = Template[Any] | Trace | NaiveOnCpu | NaiveOnCuda


class Plan:
    """The configurations that may be tried for a workload on a device, and which come next.

    ``strategy`` and ``seed`` are the search's. ``among`` restricts the plan to these templates;
    None takes those that are searched by default. If ``others`` is false, traces and the naive
    schedule are excluded, too. Raises NothingWorked if no template serves the workload; a gradient
    without a template has the naive schedule, unless ``others`` is false.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        strategy: str,
        seed: int | None,
        among: Sequence[Template[Any]] | None = None,
        *,
        others: bool = True,
    ) -> None:
        self.workload, self.device = workload, device
        applying = among if among is not None else templates.templates_for(workload, device.limits)
        chosen = [each for each in applying if each.by_default or among is not None]
        if not chosen and (workload.is_forward or not others):
            raise NothingWorked(f"no template serves {workload.key} on {device.kind}")
        self.templates = {template.name: template for template in chosen}
        self._spaces = {t.name: t.space(workload, device.limits) for t in chosen}
        # a gradient that has no template is computed by the naive schedule
        self.space = UnionSpace([*self._spaces.values()] or [naive_on(device.kind).space()])
        self._ranker = self._pretrained() if strategy in search.GUIDED else None
        prior = partial(self._expected, workload) if self._ranker is not None else None
        self.search = search.create(strategy, self.space, self._features, seed, prior)
        defaults = (template.default(workload, device.limits) for template in chosen)
        self.search.begin_with([self.space.index(config) for config in defaults])
        self._programs: dict[str, Program] = {template.name: template for template in applying}
        if others:
            self._programs |= {Trace.name: Trace(), NAIVE: naive_on(device.kind)}

    @property
    def size(self) -> int | None:
        """The number of configurations; None if it is unknown."""
        return len(self.space)

    def ask(self, count: int) -> list[Config]:
        """Return the next ``count`` configurations, none twice; fewer if the space runs out."""
        return [self.space[index] for index in self.search.ask(count)]

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Give the search configurations with their times in µs, None if they failed.

        Configurations that are not in the space, for example of an earlier template, are ignored.
        """
        known = []
        for config, time_us in results:
            try:
                known.append(search.Result(self.space.index(config), time_us))
            except InvalidConfig:
                continue
        self.search.tell(known)

    def warm_up(self, past: Sequence[tuple[Workload, Sequence[PastTrial]]]) -> tuple[int, int]:
        """Let the search learn from trials of other workloads. ``past`` begins with the nearest.

        Return the numbers of jobs and of trials from which it learns. Trials of another template
        version are ignored. Both numbers are 0 if the strategy does not use other workloads.
        """
        groups, jobs = [], set()
        for workload, trials in past:
            group = []
            for trial in trials:
                earlier = self._earlier(workload, trial)
                if earlier is not None:
                    group.append(earlier)
                    jobs.add(trial.job_seq)
            expected = self._expected(workload, [each.config for each in group])
            groups.append(
                [replace(e, expected=x) for e, x in zip(group, expected.tolist(), strict=True)]
            )
        if not self.search.warm_up(groups):
            return 0, 0
        return len(jobs), sum(map(len, groups))

    def _earlier(self, workload: Workload, trial: PastTrial) -> search.Earlier | None:
        template = self.templates.get(trial.template)
        if template is None or template.version != trial.template_version:
            return None
        try:
            derived = self._derived(workload, trial.config)
        except KeyError:  # a knob that the template no longer has
            return None
        try:
            index = self.space.index(trial.config)
        except InvalidConfig:
            index = None
        return search.Earlier(trial.config, derived, trial.time_us, index)

    def knows(self, config: Config, version: int) -> bool:
        """Return whether a configuration of this template version can be built again here.

        A best may also be a trace or the naive schedule. They can be built, too, unless ``others``
        is false.
        """
        known = self._programs.get(config["template"])
        if known is None or known.version != version:
            return False
        if not isinstance(known, Template):
            return True
        return config in self._space(known)

    def competitor(self, config: Config, version: int) -> Config | None:
        """Return the configuration with which a stored best takes part in a last round, if any.

        If its template had another version then, the configuration is another program now. That
        program is probably fast, and is built and timed like the other finalists. Knobs that the
        template has gained since then get their first value. Return None if the configuration can't
        be built again.
        """
        known = self._programs.get(config["template"])
        if isinstance(known, Template):
            version = known.version
            config = self._space(known).completed(config)
        return config if self.knows(config, version) else None

    def version(self, config: Config) -> int:
        """Return the version of the configuration's template."""
        return self._programs[config["template"]].version

    def threads(self, config: Config) -> int | None:
        """Return the number of CPU threads on which the configuration runs; None on a GPU."""
        return self._programs[config["template"]].threads(config, self.device.limits)

    def naive(self) -> Config | None:
        """Return the configuration of the naive schedule; None if the order allows templates only.

        In that case the constructor's ``others`` is false.
        """
        return naive_on(self.device.kind).config() if NAIVE in self._programs else None

    def default(self) -> Config:
        """Return the default configuration of the first template; the naive one if there is no
        template."""
        first = next(iter(self.templates.values()), None)
        if first is None:
            return naive_on(self.device.kind).config()
        return first.default(self.workload, self.device.limits)

    def order(self, config: Config, library: Path) -> BuildOrder:
        """Return the order to build a configuration into the file ``library``."""
        program = program_of(self._programs[config["template"]])
        return BuildOrder(self.workload.key, program, config, self.device.target, library)

    def empty_order(self, library: Path) -> BuildOrder:
        """Return the order to build the empty program, whose time is the cost of a launch."""
        return BuildOrder(EMPTY_WORKLOAD.key, EMPTY, None, self.device.target, library)

    def close(self) -> None:
        """End the processes of the search; this plan has no processes."""

    def _space(self, template: Template[Any]) -> ConfigSpace:
        """Return the space of a template, which need not be searched."""
        if template.name not in self._spaces:
            self._spaces[template.name] = template.space(self.workload, self.device.limits)
        return self._spaces[template.name]

    def _features(self, config: Config) -> dict[str, float]:
        return self._derived(self.workload, config)

    def _pretrained(self) -> Ranker | None:
        """Return the package's ranker; None if no template of the plan was in its training."""
        ranked = _workload_to_rank(self.workload)
        gradients = not ranked.is_forward
        found = pretrained(ranked.operator, self.device.kind, gradients=gradients)
        return found if found is not None and any(map(found.knows, self.templates)) else None

    def _expected(self, workload: Workload, configs: Sequence[Config]) -> NDArray[np.float32]:
        """Return the ranker's scores of configurations of a workload; zeros without a ranker."""
        if self._ranker is None or not configs:
            return np.zeros(len(configs), np.float32)
        derive = partial(self._derived, workload)
        return self._ranker.expected(
            _workload_to_rank(workload), self.device.limits, derive, configs
        )

    def _derived(self, workload: Workload, config: Config) -> dict[str, float]:
        """Return the features of a configuration that a cost model sees beside its knobs."""
        template = self.templates.get(config["template"])
        derived = template.features(workload, config, self.device.limits) if template else {}
        return derived | {"bytes": workload.bytes, "flops": workload.flops}


def _workload_to_rank(workload: Workload) -> Workload:
    """Return the workload that a ranker sees: for a gradient, the forward workload that it equals,
    if there is one."""
    return workload.as_forward or workload

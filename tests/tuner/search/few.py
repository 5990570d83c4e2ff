"""MetaSchedule's evolution with a population of 32, for child processes. A generation of the
default 512 takes more than a second, and the tests do not depend on the size."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tuner.build.compile import Built
from tuner.device.device import Device
from tuner.plan import evolution, metaschedule
from tuner.plan.evolution import Config, Setup
from tuner.settings import Settings

POPULATION = 32


def propose(setup: Setup, told: Sequence[tuple[Config, float | None]], count: int) -> list[Config]:
    """Do what :func:`tuner.plan.evolution.propose` does, with a small population."""
    with few():
        return evolution.propose(setup, told, count)


def tune(
    workload_key: str, device: Device, settings: Settings, trials: int, seed: int, folder: Path
) -> Built:
    """Do what :func:`tuner.plan.metaschedule.tune` does, with a small population."""
    with few():
        return metaschedule.tune(workload_key, device, settings, trials, seed, folder)


def few() -> AbstractContextManager[Any]:
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    by_default = EvolutionarySearch.__init__.__kwdefaults__ | {"population_size": POPULATION}
    return patch.object(EvolutionarySearch.__init__, "__kwdefaults__", by_default)

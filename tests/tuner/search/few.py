"""MetaSchedule's evolution among few individuals: a generation of its default, 512, takes a second
and more, and what is asked of it here does not depend on how many there are. In a child process."""

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
    """As :func:`tuner.plan.evolution.propose`."""
    with few():
        return evolution.propose(setup, told, count)


def tune(
    workload_key: str, device: Device, settings: Settings, trials: int, seed: int, folder: Path
) -> Built:
    """As :func:`tuner.plan.metaschedule.tune`."""
    with few():
        return metaschedule.tune(workload_key, device, settings, trials, seed, folder)


def few() -> AbstractContextManager[Any]:
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    by_default = EvolutionarySearch.__init__.__kwdefaults__ | {"population_size": POPULATION}
    return patch.object(EvolutionarySearch.__init__, "__kwdefaults__", by_default)

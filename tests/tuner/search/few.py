"""MetaSchedule's evolution among few individuals: a generation of its default, 512, takes a second
and more, and what is asked of it here does not depend on how many there are."""

from collections.abc import Sequence
from unittest.mock import patch

from tuner.plan import evolution
from tuner.plan.evolution import Config, Setup

POPULATION = 32


def propose(setup: Setup, told: Sequence[tuple[Config, float | None]], count: int) -> list[Config]:
    """As :func:`tuner.plan.evolution.propose`."""
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    by_default = EvolutionarySearch.__init__.__kwdefaults__ | {"population_size": POPULATION}
    with patch.object(EvolutionarySearch.__init__, "__kwdefaults__", by_default):
        return evolution.propose(setup, told, count)

"""More templates with planted behaviours; child processes import them from here by name."""

from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.template import Config
from tests.tuner.measure.planted import Planted, PlantedBuild


class Doomed(Planted):
    """A template of which no configuration works."""

    name = "doomed"
    behaviours = ("wrong", "partial", "crash")


class Deceptive(Planted):
    """A template whose default configuration crashes the process that times the finalists.

    The default is a finalist without having been measured.
    """

    name = "deceptive"
    behaviours = ("right", "crash")

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.config("crash")


class HangsAtLast(Planted):
    """A template whose default configuration, a finalist without a measurement, never returns."""

    name = "hangs_at_last"
    behaviours = ("right", "hang")

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.config("hang")


class Small(Planted):
    """A template with two configurations: one is right, the other computes a wrong answer."""

    name = "small"
    behaviours = ("right", "wrong")


class SlowBuild(PlantedBuild):
    """A template whose builds take longer than any test."""

    name = "slow_build"
    behaviours = ("build_hang",)

"""More planted templates, found by child processes by their import path."""

from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.template import Config
from tests.tuner.measure.planted import Planted, PlantedBuild


class Doomed(Planted):
    """Nothing in it works."""

    name = "doomed"
    behaviours = ("wrong", "partial", "crash")


class Deceptive(Planted):
    """What it takes without measuring takes the finalists' process down."""

    name = "deceptive"
    behaviours = ("right", "crash")

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.config("crash")


class HangsAtLast(Planted):
    """What it takes without measuring never returns."""

    name = "hangs_at_last"
    behaviours = ("right", "hang")

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.config("hang")


class Small(Planted):
    """One configuration to win, one to lose."""

    name = "small"
    behaviours = ("right", "wrong")


class SlowBuild(PlantedBuild):
    """Nothing of it is built in any time that a test has."""

    name = "slow_build"
    behaviours = ("build_hang",)

"""Templates whose programs or builds fail on purpose. They are in a module because builders'
processes import them by name."""

import ctypes
import os
import signal
from pathlib import Path
from typing import Any, Literal

from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template


class Planted(Template[Conv1dWorkload]):
    """A conv1d for the CPU, whose single knob ``behaviour`` says what a call does.

    ``right``: computes the answer. ``wrong``: adds 1 to each output. ``partial``: leaves the last
    output unwritten. ``crash``: aborts the process. ``hang``: never returns.
    """

    name = "planted"
    kind: Literal["cpu", "cuda"] = "cpu"
    version = 1
    behaviours: tuple[str, ...] = ("right", "wrong", "partial", "crash", "hang")

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("behaviour", list(self.behaviours))
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.config(self.behaviours[0])

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return {"flops": workload.flops, "bytes": workload.bytes}

    def config(self, behaviour: str) -> Config:
        return {"template": self.name, "behaviour": behaviour}

    def computation(self, workload: Conv1dWorkload, config: Config) -> Any:
        from tests.tuner.measure.planted_programs import program

        return program(workload, config["behaviour"])

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        from tvm.s_tir import Schedule

        return Schedule(self.computation(workload, config))


class PlantedSlow(Planted):
    """A conv1d that is right, but slower than any other template: it sleeps 20 ms first."""

    name = "planted_slow"
    behaviours = ("slow",)


class PlantedHang(Planted):
    """A conv1d whose call never returns."""

    name = "planted_hang"
    behaviours = ("hang",)


class PlantedBuild(Planted):
    """A conv1d whose ``behaviour`` says how its build fails; ``right`` builds.

    ``unschedulable``: the schedule raises. ``uncompilable``: the compiler raises. ``build_crash``:
    the building process aborts. ``build_hang``: the building process sleeps in native code that
    holds the interpreter's lock.
    """

    name = "planted_build"
    behaviours = ("right", "unschedulable", "uncompilable", "build_crash", "build_hang")

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        from tvm.s_tir import Schedule

        from templates.conv1d.ladder.baseline import naive

        behaviour = config["behaviour"]
        if behaviour == "unschedulable":
            raise ValueError("planted: no such schedule")
        if behaviour == "build_crash":
            os.abort()
        if behaviour == "build_hang":
            ctypes.PyDLL(None).sleep(3600)
        if behaviour == "uncompilable":
            return naive(workload, "cuda")  # it has GPU threads, and the target is a CPU
        return Schedule(self.computation(workload, config))


class PlantedHungry(Planted):
    """A conv1d whose second behaviour is the path of a folder. Each build with that behaviour adds
    a line to the folder's file ``tries``. Then the building process is killed, as if memory ran
    out, unless the folder has a file ``enough``."""

    name = "planted_hungry"

    def __init__(self, folder: Path = Path()) -> None:
        self.behaviours = ("right", str(folder))

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        if config["behaviour"] != "right":
            folder = Path(config["behaviour"])
            with (folder / "tries").open("a") as tries:
                tries.write("tried\n")
            if not (folder / "enough").exists():
                os.kill(os.getpid(), signal.SIGKILL)
        return super().schedule(workload, self.config("right"))

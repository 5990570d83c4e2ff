"""A template whose kernels misbehave on purpose. Builders' children import it by its path."""

from typing import Any

from templates.conv1d.workload import Conv1dWorkload
from templates.template import Config
from tests.tuner.measure.planted import Planted

STATEMENTS = {
    "null": "*(volatile float*)8 = 1.0f;",
    "far": "*(volatile float*)(y + (1ll << 44)) = 1.0f;",
    "misaligned": "*(volatile float*)((char*)y + 1) = 1.0f;",
    "trap": 'asm volatile("trap;");',
    "endless": 'while (true) asm volatile("nanosleep.u32 1000;");',
    "wrong": "y[0] = 1.0f;",
}
"""For each behaviour, the statement that each thread of the kernel executes. The behaviour
``right`` is the naive schedule instead."""
SOURCE = """
__device__ void planted(const float* x, const float* w, float* y, unsigned* shared) { %s }
"""


class PlantedCuda(Planted):
    """A CUDA template of conv1d; its knob ``behaviour`` says what the kernel does when it runs."""

    name = "planted_cuda"
    kind = "cuda"
    behaviours = ("right", *STATEMENTS)

    def computation(self, workload: Conv1dWorkload, config: Config) -> Any:
        from templates.kernels.cuda_source import program

        source = SOURCE % STATEMENTS[config["behaviour"]]
        return program(workload, "planted", source, blocks=1, threads=32, words=1)

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        from tvm.s_tir import Schedule

        from templates.conv1d.ladder.baseline import naive

        if config["behaviour"] == "right":
            return naive(workload, "cuda")
        return Schedule(self.computation(workload, config))

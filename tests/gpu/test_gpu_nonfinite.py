"""A NaN or an infinity in the input reaches only the outputs that are sums over it, in CUDA
templates whose arithmetic does not spread it."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tests.templates.nonfinite import BAD, planted, reached
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.device.device import Device
from tuner.measure.cases import Case
from tuner.measure.kernel import Loaded, Tensors

pytestmark = pytest.mark.gpu

RANDOM = 6  # configurations of each template
PLACES = (0.0, 0.4, 1.0)
NUMBERS = itertools.count()
"""Numbers that name the libraries. The loader does not read a known name again, and pytest may use
a folder's name for the next test."""
WORKLOADS = [
    Conv1dWorkload(M=397, N=61),
    Conv1dWorkload(M=1024, N=13, mode="same", kind="correlate"),
    Conv1dWorkload(M=5003, N=2053, mode="valid"),
    Conv1dWorkload(M=397, N=31, dtype="float16"),
    DepthwiseConv2dWorkload(B=2, C=3, H=31, W=29, K=7),
    DepthwiseConv2dWorkload(B=1, C=16, H=28, W=28, K=3, stride=2),
    DepthwiseConv2dWorkload(B=2, C=3, H=5, W=37, K=11, dtype="float16"),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_nonfinite_input_reaches_only_the_sums_over_it(
    workload: Workload, device: Device, builder: Builder, tmp_path: Path
) -> None:
    building = []
    for template in templates.templates_for(workload, device.limits):
        if template.arithmetic.spreads_nonfinite:
            continue
        space = template.space(workload, device.limits)
        drawn = space.sample(np.random.default_rng(11), RANDOM)
        for config in [template.default(workload, device.limits), *(space[i] for i in drawn)]:
            library = tmp_path / f"{next(NUMBERS)}.so"
            program = program_of(template)
            order = BuildOrder(workload.key, program, config, device.target, library)
            building.append(builder.submit(order))
    tensors = Tensors(workload, "cuda")
    for each in building:
        built = each.result()
        assert built.status == "ok", (built.order.config, built.error)
        loaded = Loaded(built.order.library, tensors)
        for place, bad in zip(PLACES, BAD, strict=True):
            x, w = planted(workload, place, bad)
            expected = reached(workload, x)
            loaded.run(Case(f"at {place}", (x, w), {"output": expected.astype(np.float64)}))
            wrong = np.flatnonzero(np.isfinite(tensors.outputs[0].numpy()) == expected)
            assert not wrong.size, (built.order.config, place, bad, wrong)

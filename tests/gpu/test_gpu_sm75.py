"""The programs of a T4 are right on a newer GPU: every CUDA template within a T4's limits is built
to PTX for sm_75, which the driver compiles, and checked against the reference."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tests.gpu.jit import build
from tests.templates.devices import T4
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.compare.runner import Runner
from tuner.device import cuda_facts
from tuner.device.device import Device

pytestmark = pytest.mark.gpu

BUILD_SECONDS = 120.0
WORKLOADS = [
    Conv1dWorkload(M=1, N=1),
    Conv1dWorkload(M=397, N=61, mode="same", kind="correlate"),
    Conv1dWorkload(M=16384, N=32),
    Conv1dWorkload(M=100003, N=4099, mode="valid"),
    Conv1dWorkload(M=16381, N=61, dtype="float16"),
    Conv1dWorkload(M=2**17, N=127, mode="valid", max_error=1e-3),
    DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=1),
    DepthwiseConv2dWorkload(B=2, C=5, H=3, W=2, K=11, stride=2),
    DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7),
    DepthwiseConv2dWorkload(B=2, C=16, H=31, W=61, K=3, stride=2),
    DepthwiseConv2dWorkload(B=2, C=8, H=28, W=28, K=29),
    DepthwiseConv2dWorkload(B=4, C=32, H=14, W=14, K=5, dtype="float16"),
    Conv1dWorkload(M=16381, N=61, dtype="bfloat16"),
    Conv1dWorkload(B=5, C=12, M=202, N=31, mode="same", dtype="float16", residual=True),
    Conv1dWorkload(M=20011, N=1031, mode="same", bias=True, residual=True, activation="silu"),
    DepthwiseConv2dWorkload(B=4, C=32, H=14, W=14, K=5, dtype="bfloat16", bias=True),
    DepthwiseConv2dWorkload(B=4, C=32, H=14, W=14, K=5, dtype="float16", layout="NHWC"),
    DepthwiseConv2dWorkload(
        B=3, C=40, H=15, W=17, K=9, dtype="float16", layout="NHWC", bias=True, residual=True
    ),
    DepthwiseConv2dWorkload(B=4, C=7, H=15, W=17, K=9, residual=True, activation="silu"),
    DepthwiseConv2dWorkload(
        B=2,
        C=24,
        H=15,
        W=17,
        K=3,
        dtype="bfloat16",
        layout="NHWC",
        activation="silu",
        residual=True,
    ),
    DepthwiseConv2dWorkload(B=1, C=8, H=15, W=17, K=13, layout="NHWC", bias=True),
    Conv1dWorkload(
        B=3, C=24, M=101, N=3, mode="causal", layout="NWC", gated=True, dtype="bfloat16", bias=True
    ),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_ptx_for_a_t4_is_right(
    workload: Workload, device: Device, builder: Builder, tmp_path: Path
) -> None:
    random = np.random.default_rng(19)
    orders = []
    for template in templates.templates_for(workload, T4):
        space = template.space(workload, T4)
        drawn = space[int(random.integers(len(space)))]
        for config in (template.default(workload, T4), drawn):
            library = tmp_path / f"{len(orders)}.so"
            program, target = program_of(template), cuda_facts.target(T4)
            orders.append(BuildOrder(workload.key, program, config, target, library))
    with ThreadPoolExecutor(builder.workers) as pool:
        building = partial(builder.call, build, timeout=BUILD_SECONDS)
        results = list(pool.map(building, orders))
    with Runner(workload.key, device, timeout=60) as runner:
        for built in results:
            assert built.status == "ok", (built.order.config, built.error)
            assert b".target sm_75" in built.order.library.read_bytes()
            measured = runner.measure(built.order.library)
            assert measured.status == "ok", (built.order.config, measured.error)

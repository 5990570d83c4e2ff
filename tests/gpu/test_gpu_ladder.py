"""Every rung of the ladders is right on the GPU and is timed."""

from dataclasses import replace

import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tuner.build.builder import Builder
from tuner.device.device import Device
from tuner.ladder.ladder import climb, rungs_of

pytestmark = pytest.mark.gpu

TRIALS = 4
"""The most trials of a rung that searches."""
WORKLOADS = [
    Conv1dWorkload(M=1, N=1),
    Conv1dWorkload(M=397, N=61, mode="same", kind="correlate"),
    Conv1dWorkload(M=631, N=631, mode="valid"),
    Conv1dWorkload(M=2503, N=2053),
    Conv1dWorkload(M=16384, N=32),
    Conv1dWorkload(M=1_000_000, N=2047, mode="valid", kind="correlate"),
    DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=1),
    DepthwiseConv2dWorkload(B=2, C=3, H=17, W=37, K=11, stride=2),
    DepthwiseConv2dWorkload(B=1, C=2, H=43, W=35, K=27),
    DepthwiseConv2dWorkload(B=1, C=2, H=61, W=67, K=33, stride=2),
    DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7),
    DepthwiseConv2dWorkload(B=1, C=70_001, H=1, W=3, K=3),
    DepthwiseConv2dWorkload(B=1, C=1, H=70_001, W=2, K=3),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_every_rung_is_right(workload: Workload, device: Device, builder: Builder) -> None:
    few = [replace(rung, trials=min(rung.trials, TRIALS)) for rung in rungs_of(workload.operator)]
    climbed = climb(workload, device, builder, few)
    rungs = [row for row in climbed.rows if row.what == "rung"]
    failed = {
        row.name: row.note
        for row in rungs
        if row.time_us is None and not (row.note or "").startswith("left out")
    }
    assert failed == {}
    assert len([row for row in rungs if row.time_us]) >= len(rungs) - 1
    (empty,) = (row for row in climbed.rows if row.what == "empty")
    assert 0 < (empty.time_us or 0) < 50

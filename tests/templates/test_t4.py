"""Every CUDA template's default for a T4 becomes machine code for sm_75 that spills nothing and
stays within a block's shared memory and registers. No test runs on a T4."""

import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tests.templates.cuda_source import cubin, declared, registers_and_stack, source
from tests.templates.devices import T4

OPT_IN = 64 * 1024
WORKLOADS = [
    Conv1dWorkload(M=1, N=1),
    Conv1dWorkload(M=16384, N=32),
    Conv1dWorkload(M=16384, N=32, dtype="float16"),
    Conv1dWorkload(M=1_000_000, N=2047, mode="valid", kind="correlate"),
    Conv1dWorkload(M=1_500_000, N=127, mode="valid", max_error=1e-3),
    Conv1dWorkload(M=100_003, N=65_536, mode="same"),
    DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=1),
    DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7),
    DepthwiseConv2dWorkload(B=32, C=32, H=112, W=112, K=3, stride=2),
    DepthwiseConv2dWorkload(B=32, C=1152, H=7, W=7, K=5),
    DepthwiseConv2dWorkload(B=32, C=96, H=56, W=56, K=7, dtype="float16"),
    DepthwiseConv2dWorkload(B=32, C=128, H=56, W=56, K=31),
    DepthwiseConv2dWorkload(B=1, C=2, H=67, W=71, K=63, stride=2),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_every_default_fits_a_t4(workload: Workload) -> None:
    for template in templates.templates_for(workload, T4):
        config = template.default(workload, T4)
        text = source(template, workload, config, T4)
        found, (registers, stack) = declared(text), registers_and_stack(cubin(text, T4.arch))
        shared = template.features(workload, config, T4)["shared_bytes"]
        assert (found.shared_bytes or shared) <= OPT_IN, template.name
        assert max(found.threads) <= T4.threads_per_block, template.name
        assert max(found.threads) * registers <= T4.registers_per_unit, template.name
        assert stack == 0, template.name

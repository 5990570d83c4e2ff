"""CPU templates: random configurations of random workloads, built and run, agree with the
reference."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import LEAST_ERROR
from templates.workload import Workload
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU
from tests.templates.shapes import SMALL
from tuner.measure.check import check

BOUNDED = settings(max_examples=18, derandomize=True, deadline=None, database=None)


def agrees(workload: Workload, template: Any, config: dict[str, Any]) -> None:
    errors = Compiled(template, workload, config).errors
    assert check(errors, cases_of(workload), workload.max_error) <= workload.max_error


@pytest.mark.parametrize("operator", SMALL)
@BOUNDED
@given(data=st.data())
def test_any_configuration_of_a_small_workload_is_right(operator: str, data: st.DataObject) -> None:
    workload = data.draw(SMALL[operator]())
    for template in templates.templates_for(workload, CPU):
        space = template.space(workload, CPU)
        config = space[data.draw(st.integers(0, len(space) - 1))]
        agrees(workload, template, config)


@pytest.mark.parametrize(
    "workload",
    [
        Conv1dWorkload(M=5003, N=2053),
        Conv1dWorkload(M=4111, N=4111, mode="same", kind="correlate"),
        Conv1dWorkload(M=10007, N=6151, mode="valid"),
        Conv1dWorkload(M=211, N=509, mode="same", kind="correlate"),
        Conv1dWorkload(M=211, N=509, mode="causal", dtype="bfloat16", bias=True),
        Conv1dWorkload(M=5003, N=2053, dtype="float16", max_error=LEAST_ERROR["float16"]),
        Conv1dWorkload(B=3, C=37, M=211, N=5, mode="causal", layout="NWC", activation="silu"),
        Conv1dWorkload(B=2, C=24, M=509, N=67, F=19, groups=1, stride=3, dilation=2, bias=True),
        Conv1dWorkload(B=2, M=1009, N=400, F=7, stride=160, kind="correlate"),
        DepthwiseConv2dWorkload(B=1, C=2, H=61, W=67, K=63),
        DepthwiseConv2dWorkload(B=1, C=1, H=3, W=4999, K=5),
        DepthwiseConv2dWorkload(B=2, C=1, H=1, W=9001, K=3, stride=2),
        DepthwiseConv2dWorkload(
            B=1, C=2, H=61, W=67, K=63, dtype="float16", max_error=LEAST_ERROR["float16"]
        ),
        DepthwiseConv2dWorkload(B=2, C=37, H=29, W=31, K=7, layout="NHWC", bias=True),
        DepthwiseConv2dWorkload(
            B=1, C=3, H=67, W=71, KH=4, KW=3, dilation=24, padding=(40, 9, 32, 50), multiplier=2
        ),
    ],
    ids=lambda workload: workload.key,
)
@pytest.mark.parametrize("choice", ["default", "first", "last"])
def test_workloads_of_many_chunks_taps_or_columns_are_right(
    workload: Workload, choice: str
) -> None:
    for template in templates.templates_for(workload, CPU):
        space = template.space(workload, CPU)
        ends = {"first": space[0], "last": space[len(space) - 1]}
        config = ends.get(choice) or template.default(workload, CPU)
        agrees(workload, template, config)


LARGEST = [
    Conv1dWorkload(M=2**20, N=3, B=2**10, mode="same", dtype="float16"),
    Conv1dWorkload(M=2**10, N=5, B=2**10, C=2**10, mode="causal", layout="NWC", dtype="bfloat16"),
    Conv1dWorkload(M=2**12, N=2**16, C=2**9, B=2, F=1, groups=1, mode="causal", stride=2**8),
    Conv1dWorkload(M=2**24, N=2**15 - 2**6),
    Conv1dWorkload(M=2**23 - 2**16, N=2**16),
    DepthwiseConv2dWorkload(B=2**28 - 1, C=1, H=1, W=1, K=1),
    DepthwiseConv2dWorkload(B=2**28 - 2**12, C=1, H=1, W=1, K=63, stride=2),
    DepthwiseConv2dWorkload(B=1, C=1, H=1, W=2**28 - 2**12, K=63),
    DepthwiseConv2dWorkload(B=1, C=1, H=2**28 - 2**12, W=1, K=63, stride=2),
    DepthwiseConv2dWorkload(B=1, C=1, H=2**14, W=2**14 - 1, K=63),
    Conv1dWorkload(M=2**23 - 2**16, N=2**16, dtype="float16"),
    DepthwiseConv2dWorkload(B=2**29 - 1, C=1, H=1, W=1, K=1, dtype="float16"),
]


@pytest.mark.parametrize("workload", LARGEST, ids=lambda workload: workload.key)
def test_the_largest_workloads_compile(workload: Workload) -> None:
    for template in templates.templates_for(workload, CPU):
        Compiled(template, workload, template.default(workload, CPU))

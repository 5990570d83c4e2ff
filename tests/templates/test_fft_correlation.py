"""The reference is exactly zero if a strided or dilated kernel steps over every impulse.

A transform's rounding errors in place of the zeros would be the largest numbers of the reference,
and every right program would be refused.
"""

from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d import sums_exact as of_signals
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d import sums_exact as of_images
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tuner.measure import cases

SIGNALS = {"M": 1339, "N": 150, "C": 2, "dilation": 3, "padding": (5, 8)}
IMAGES = {"B": 2, "C": 2, "H": 41, "W": 43, "K": 11, "stride": 2, "dilation": 2}


@pytest.mark.parametrize("direction", ["forward", "backward_weight"])
@pytest.mark.parametrize(
    "forward",
    [
        Conv1dWorkload(**SIGNALS, stride=3),
        Conv1dWorkload(**SIGNALS | {"padding": (8, 0)}, stride=7),
        DepthwiseConv2dWorkload(**IMAGES, padding=(1, 1, 1, 1)),
        DepthwiseConv2dWorkload(**IMAGES, padding=(1, 3, 5, 7), multiplier=2),
    ],
    ids=lambda work: work.key,
)
def test_reference_is_zero_if_the_kernel_steps_over_every_impulse(
    forward: Any, direction: str
) -> None:
    workload = type(forward).model_validate(
        forward.model_dump(exclude_none=True) | {"direction": direction}
    )
    assert workload.taps > max(of_signals.DIRECT_TAPS, of_images.DIRECT_TAPS)
    given = cases.draw(workload, "impulse", np.random.default_rng(1))
    assert given[0].any()
    for exact in templates.operator(workload.operator).references(workload, *given).values():
        assert not exact.any()

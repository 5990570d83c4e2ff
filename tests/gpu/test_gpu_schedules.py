"""Random configurations of the CUDA templates are built, run on the GPU and checked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tuner.build.builder import Builder
from tuner.build.compile import EMPTY, EMPTY_WORKLOAD, BuildOrder, program_of
from tuner.compare.runner import Runner
from tuner.device.device import Device

pytestmark = pytest.mark.gpu

RANDOM = 8  # configurations of each template
WORKLOADS: list[Workload] = [
    Conv1dWorkload(M=1, N=1),
    Conv1dWorkload(M=397, N=1, mode="valid"),
    Conv1dWorkload(M=97, N=97, mode="same", kind="correlate"),
    Conv1dWorkload(M=251, N=250, mode="valid"),
    Conv1dWorkload(M=16381, N=61),
    Conv1dWorkload(M=16384, N=32, kind="correlate"),
    Conv1dWorkload(M=100003, N=4099, mode="same"),
    Conv1dWorkload(M=2**20, N=2047, mode="valid", kind="correlate"),
    DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=1),
    DepthwiseConv2dWorkload(B=2, C=3, H=1, W=37, K=7),
    DepthwiseConv2dWorkload(B=2, C=5, H=3, W=2, K=11, stride=2),
    DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7),
    DepthwiseConv2dWorkload(B=1, C=16, H=31, W=61, K=3, stride=2),
    DepthwiseConv2dWorkload(B=1, C=2, H=67, W=71, K=63, stride=2),
    DepthwiseConv2dWorkload(B=4, C=96, H=56, W=56, K=7),
    DepthwiseConv2dWorkload(B=2**20, C=3, H=1, W=1, K=63),
    Conv1dWorkload(M=1, N=1, dtype="float16"),
    Conv1dWorkload(M=16381, N=61, dtype="float16"),
    Conv1dWorkload(M=100003, N=4099, mode="same", kind="correlate", dtype="float16"),
    Conv1dWorkload(M=2**17, N=2**16, mode="valid", dtype="float16"),
    DepthwiseConv2dWorkload(B=2, C=5, H=3, W=2, K=11, stride=2, dtype="float16"),
    DepthwiseConv2dWorkload(B=1, C=16, H=31, W=61, K=3, stride=2, dtype="float16"),
    DepthwiseConv2dWorkload(B=1, C=2, H=67, W=71, K=63, dtype="float16"),
    DepthwiseConv2dWorkload(B=4, C=96, H=56, W=56, K=7, dtype="float16"),
    Conv1dWorkload(M=16381, N=61, bias=True, residual=True, activation="gelu"),
    Conv1dWorkload(M=20011, N=1031, mode="same", residual=True, activation="silu"),
    Conv1dWorkload(M=16384, N=255, mode="same", dtype="bfloat16", bias=True, residual=True),
    Conv1dWorkload(
        B=3, C=5, F=10, M=3001, N=100, dtype="float16", bias=True, residual=True, activation="relu6"
    ),
    Conv1dWorkload(M=5003, N=5, activation="hardswish", dtype="float16"),
    Conv1dWorkload(
        B=70, C=3, F=6, M=1000, N=333, dtype="float16", bias=True, residual=True, activation="relu"
    ),
    Conv1dWorkload(B=17, C=2, M=777, N=64, mode="same", kind="correlate", dtype="bfloat16"),
    Conv1dWorkload(B=64, C=4, M=1024, N=1024, mode="causal", dtype="float16"),
    *(
        Conv1dWorkload(mode="causal", layout="NWC", gated=True, **fields)
        for fields in (
            {"B": 3, "C": 72, "M": 509, "N": 3, "dtype": "bfloat16", "bias": True},
            {"B": 2, "C": 5, "M": 97, "N": 131, "dtype": "float16", "kind": "correlate"},
            {"B": 2, "C": 1024, "M": 2048, "N": 4, "dtype": "bfloat16"},
            {"C": 12, "M": 4099, "N": 7, "dilation": 61, "bias": True},
            {"C": 8, "M": 2, "N": 16},
        )
    ),
    DepthwiseConv2dWorkload(
        B=3, C=5, H=16, W=31, K=3, stride=2, bias=True, residual=True, activation="silu"
    ),
    DepthwiseConv2dWorkload(B=2, C=37, H=29, W=31, K=7, layout="NHWC", activation="relu6"),
    DepthwiseConv2dWorkload(
        B=2,
        C=40,
        H=29,
        W=31,
        K=5,
        stride=2,
        layout="NHWC",
        bias=True,
        residual=True,
        dtype="float16",
    ),
    DepthwiseConv2dWorkload(B=2, C=24, H=23, W=31, K=31, layout="NHWC", dtype="bfloat16"),
    DepthwiseConv2dWorkload(
        B=2, C=48, H=14, W=14, K=3, layout="NHWC", dtype="bfloat16", bias=True, activation="gelu"
    ),
    DepthwiseConv2dWorkload(
        B=5,
        C=72,
        H=30,
        W=61,
        K=7,
        layout="NHWC",
        dtype="bfloat16",
        residual=True,
        activation="silu",
    ),
    DepthwiseConv2dWorkload(
        B=3,
        C=40,
        H=19,
        W=23,
        KH=3,
        KW=9,
        stride=2,
        dilation=2,
        padding=(0, 9, 5, 3),
        layout="NHWC",
        dtype="float16",
        bias=True,
    ),
    DepthwiseConv2dWorkload(B=9, C=192, H=7, W=7, K=5, layout="NHWC", dtype="bfloat16"),
    DepthwiseConv2dWorkload(
        B=3,
        C=80,
        H=30,
        W=27,
        KH=5,
        KW=6,
        padding=(0, 4, 5, 1),
        layout="NHWC",
        dtype="float16",
        bias=True,
        activation="silu",
    ),
    *(
        Conv1dWorkload(mode="causal", direction=direction, **{"dtype": "bfloat16"} | fields)
        for direction in ("backward_input", "backward_weight")
        for fields in (
            {"B": 2, "C": 24, "M": 4096, "N": 4, "activation": "silu", "bias": True},
            {"B": 3, "C": 5, "F": 10, "M": 509, "N": 37, "stride": 2, "dilation": 3},
            {"B": 2, "C": 24, "M": 4099, "N": 4, "activation": "silu", "bias": True}
            | {"layout": "NWC", "kind": "correlate"},
            {"B": 2, "C": 5, "F": 10, "M": 509, "N": 37, "stride": 2, "layout": "NWC"},
            {"B": 5, "C": 40, "F": 61, "M": 1009, "N": 5, "stride": 2, "groups": 1, "bias": True},
            {"B": 3, "C": 37, "F": 64, "M": 500, "N": 3, "groups": 1, "layout": "NWC"}
            | {"dtype": "float32", "activation": "gelu"},
        )
    ),
    *(
        Conv1dWorkload(direction="backward", **{"mode": "causal"} | fields)
        for fields in (
            {"B": 2, "C": 24, "M": 4096, "N": 4, "dtype": "bfloat16"}
            | {"activation": "silu", "bias": True},
            {"B": 70, "C": 5, "M": 509, "N": 9, "activation": "gelu", "bias": True},
            {"B": 3, "C": 7, "M": 2048, "N": 3, "mode": "full", "dtype": "float16"}
            | {"activation": "silu", "dilation": 2},
            {"B": 2, "C": 24, "M": 4099, "N": 4, "dtype": "bfloat16", "layout": "NWC"}
            | {"activation": "silu", "bias": True},
            {"B": 3, "C": 35, "M": 1009, "N": 9, "mode": "same", "layout": "NWC", "bias": True}
            | {"activation": "gelu", "kind": "correlate"},
            {"B": 1, "C": 40, "M": 500, "N": 3, "mode": "full", "layout": "NWC", "dilation": 2}
            | {"dtype": "float16"},
        )
    ),
    *(
        DepthwiseConv2dWorkload(B=5, C=26, H=29, W=32, direction=direction, layout=layout, **fields)
        for direction in ("backward_input", "backward_weight")
        for layout in ("NCHW", "NHWC")
        for fields in (
            {"K": 3, "stride": 2, "multiplier": 3, "activation": "silu", "dtype": "bfloat16"},
            {"K": 5, "stride": 2, "multiplier": 2, "bias": True},
        )
    ),
    *(
        DepthwiseConv2dWorkload(B=5, C=6, H=29, W=31, direction="backward_weight", **fields)
        for fields in (
            {"K": 7, "bias": True},
            {"K": 3, "stride": 2, "dtype": "float16", "activation": "silu"},
        )
    ),
    DepthwiseConv2dWorkload(
        B=3, C=24, H=29, W=31, K=5, stride=2, layout="NHWC", direction="backward_input"
    ),
    DepthwiseConv2dWorkload(
        B=3,
        C=48,
        H=29,
        W=31,
        K=7,
        layout="NHWC",
        dtype="bfloat16",
        activation="gelu",
        direction="backward_input",
    ),
    DepthwiseConv2dWorkload(
        B=3, C=16, H=19, W=21, K=13, layout="NHWC", dtype="float16", direction="backward_input"
    ),
    *(
        DepthwiseConv2dWorkload(layout="NHWC", direction="backward_weight", **fields)
        for fields in (
            {"B": 4, "C": 96, "H": 56, "W": 56, "K": 7, "dtype": "bfloat16", "bias": True},
            {"B": 3, "C": 37, "H": 29, "W": 31, "K": 7, "activation": "silu", "bias": True},
            {"B": 9, "C": 40, "H": 29, "W": 31, "K": 5, "stride": 2, "dtype": "float16"},
            {"B": 2, "C": 24, "H": 23, "W": 31, "K": 31, "dtype": "bfloat16"},
            {"B": 1, "C": 1, "H": 1, "W": 1, "K": 63},
            {"B": 33, "C": 192, "H": 7, "W": 7, "K": 3, "dtype": "float16", "activation": "gelu"},
            {
                "B": 3,
                "C": 40,
                "H": 19,
                "W": 23,
                "KH": 3,
                "KW": 9,
                "stride": 2,
                "dilation": 2,
                "padding": (0, 9, 5, 3),
                "dtype": "float16",
                "bias": True,
            },
        )
    ),
    DepthwiseConv2dWorkload(B=4, C=96, H=56, W=56, K=7, dtype="bfloat16"),
    DepthwiseConv2dWorkload(
        B=4, C=96, H=14, W=14, K=5, dtype="bfloat16", bias=True, activation="hardswish"
    ),
    DepthwiseConv2dWorkload(
        B=3, C=5, H=29, W=31, K=13, bias=True, residual=True, activation="gelu"
    ),
    DepthwiseConv2dWorkload(
        B=2, C=6, H=30, W=36, K=9, stride=2, dtype="bfloat16", residual=True, activation="silu"
    ),
    DepthwiseConv2dWorkload(
        B=5, C=8, H=28, W=28, K=7, dtype="float16", bias=True, residual=True, activation="relu6"
    ),
    Conv1dWorkload(M=16381, N=61, dtype="bfloat16"),
    Conv1dWorkload(M=100003, N=4099, mode="same", kind="correlate", dtype="bfloat16"),
    Conv1dWorkload(M=5003, N=5, dtype="bfloat16", bias=True, activation="silu"),
    Conv1dWorkload(
        B=2, C=24, M=509, N=4, mode="causal", dtype="bfloat16", bias=True, activation="silu"
    ),
    Conv1dWorkload(B=2, C=24, M=1032, N=5, mode="same", dtype="bfloat16", residual=True),
    Conv1dWorkload(B=2, C=24, M=510, N=5, mode="same", layout="NWC", dtype="float16"),
    Conv1dWorkload(B=2, C=40, M=512, N=7, F=50, groups=1, dilation=9, mode="same", dtype="float16"),
    Conv1dWorkload(B=2, C=64, M=4001, N=3, groups=1, layout="NWC", dtype="bfloat16", residual=True),
    Conv1dWorkload(M=5003, N=400, F=65, stride=16, mode="valid", dtype="float16", residual=True),
    Conv1dWorkload(B=2, C=32, M=4002, N=11, groups=1, mode="same", dtype="float16", bias=True),
    Conv1dWorkload(M=5001, N=10, F=65, stride=5, mode="valid", dtype="bfloat16", activation="gelu"),
    Conv1dWorkload(B=2, M=16000, N=400, F=65, stride=160, mode="valid", residual=True),
    Conv1dWorkload(B=2, M=9001, N=101, F=270, stride=4, bias=True, activation="silu"),
    Conv1dWorkload(B=2, C=20, M=502, N=7, F=50, groups=1, layout="NWC", bias=True),
    Conv1dWorkload(B=3, C=2, M=5003, N=100, F=6),
    Conv1dWorkload(B=16, C=12, M=202, N=31, mode="same", kind="correlate", dtype="float16"),
    Conv1dWorkload(
        B=5, C=3, M=501, N=96, F=6, dtype="bfloat16", bias=True, residual=True, activation="gelu"
    ),
    Conv1dWorkload(
        B=2, C=3, F=6, M=5003, N=5003, mode="causal", dtype="float16", bias=True, activation="gelu"
    ),
    Conv1dWorkload(B=3, C=2, F=4, M=9001, N=3000, padding=(3500, 17), residual=True),
    Conv1dWorkload(
        M=300000, N=30011, kind="correlate", bias=True, residual=True, activation="silu"
    ),
    Conv1dWorkload(B=5, M=2000, N=4001, dtype="bfloat16"),
    Conv1dWorkload(B=2, C=72, M=2**16, N=2**16, mode="causal", dtype="float16"),
    DepthwiseConv2dWorkload(
        B=1, C=3, H=67, W=71, KH=4, KW=3, dilation=24, padding=(40, 9, 32, 50), multiplier=2
    ),
]

ODD: Any = {"B": 2, "C": 5, "H": 17, "W": 23, "K": 5}
LAST: Any = {"B": 3, "C": 48, "H": 15, "W": 14, "layout": "NHWC"}
WORKLOADS += [
    workload.model_validate(fields | {"direction": "backward_input"})
    for workload, fields in (
        (DepthwiseConv2dWorkload, ODD),
        (DepthwiseConv2dWorkload, ODD | {"K": 3}),
        (DepthwiseConv2dWorkload, ODD | {"K": 31, "H": 9}),
        (DepthwiseConv2dWorkload, ODD | {"K": 13, "dtype": "float16"}),
        (DepthwiseConv2dWorkload, ODD | {"K": 4, "padding": [1, 0, 3, 2], "dilation": 2}),
        (DepthwiseConv2dWorkload, LAST | {"K": 3}),
        (DepthwiseConv2dWorkload, LAST | {"K": 5, "dtype": "bfloat16"}),
        (DepthwiseConv2dWorkload, LAST | {"KH": 4, "KW": 6, "dtype": "float16"}),
        (Conv1dWorkload, {"M": 5003, "N": 61, "mode": "causal"}),
        (Conv1dWorkload, {"B": 2, "C": 24, "M": 509, "N": 4, "padding": [3, 0], "layout": "NWC"}),
    )
]
"""The workloads of the tests; the input gradients added last go through forward templates."""


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_random_configurations_are_right(
    workload: Workload, device: Device, builder: Builder, tmp_path: Path
) -> None:
    building = []
    for template in templates.templates_for(workload, device.limits):
        space = template.space(workload, device.limits)
        drawn = space.sample(np.random.default_rng(11), RANDOM)
        configs = [template.default(workload, device.limits), *(space[index] for index in drawn)]
        building += [
            builder.submit(
                BuildOrder(
                    workload.key,
                    program_of(template),
                    config,
                    device.target,
                    tmp_path / f"{template.name}{place}.so",
                )
            )
            for place, config in enumerate(configs)
        ]
    with Runner(workload.key, device, timeout=60) as runner:
        for each in building:
            built = each.result()
            assert built.status == "ok", (built.order.config, built.error)
            measured = runner.measure(built.order.library)
            assert measured.status == "ok", (built.order.config, measured.error)
            assert measured.timing["warm"]["median_us"] > 0


def test_times_are_positive_warm_and_cold(device: Device, builder: Builder, tmp_path: Path) -> None:
    workload = Conv1dWorkload(M=16384, N=32)
    template = templates.templates_for(workload, device.limits)[0]
    config = template.default(workload, device.limits)
    libraries = {name: tmp_path / f"{name}.so" for name in ("default", "empty")}
    orders = [
        BuildOrder(workload.key, program_of(template), config, device.target, libraries["default"]),
        BuildOrder(EMPTY_WORKLOAD.key, EMPTY, None, device.target, libraries["empty"]),
    ]
    for order in orders:
        built = builder.submit(order).result()
        assert built.status == "ok", built.error
    with Runner(workload.key, device) as runner:
        found = runner.compare(libraries, ["default"])
    assert found.dropped == {}
    assert {name: set(entry.timing) for name, entry in found.entries.items()} == {
        "default": {"warm", "cold"},
        "empty": {"warm"},
    }
    for entry in found.entries.values():
        for summary in entry.timing.values():
            assert 0 < summary["p10_us"] <= summary["median_us"] <= summary["p90_us"]

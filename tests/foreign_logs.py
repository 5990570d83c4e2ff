"""Tuning logs for tests of the import: convtune's own lines, and logs in other tools' formats.

``LINES`` are convtune's own, one for each operator, kind of device and template. ``OTHERS`` are
whole logs of AutoTVM, TopHub, MetaSchedule, Ansor and Kernel Tuner; those in ``UNUSABLE`` hold
nothing that convtune can use.
"""

import json
from typing import Any

import templates
from tests.templates.devices import CPU, H200

WORKLOADS = [
    operator.workload.model_validate(operator.example) for operator in templates.operators()
]
LINES: list[dict[str, Any]] = [
    {
        "convtune": 1,
        "operator": workload.operator,
        "workload": workload.model_dump(),
        "target": template.kind,
        "template": template.name,
        "version": template.version,
        "config": template.default(workload, limits),
        "status": "ok",
        "time_us": 1.5,
        "device": {"name": "Test CPU", "arch": "x"},
    }
    for workload in WORKLOADS
    for limits in (CPU, H200)
    for template in templates.templates_for(workload, limits)[:2]
]
HALVES = {"workload": ["17", "base64"], "tuning_record": [[[], []], [1e-6], {}, []]}
METASCHEDULE = [{"convtune": line, **HALVES} for line in LINES[:2]]


def autotvm(task: str, *arguments: Any, target: str = "cuda -model=v100") -> dict[str, Any]:
    """Return a line of AutoTVM's log as TVM 0.6 to 0.18 write it."""
    return {
        "input": [target, task, list(arguments), {}],
        "config": {"index": 7, "code_hash": None, "entity": [["tile_f", "sp", [-1, 1, 32, 1]]]},
        "result": [[1.5e-05], 0, 0.9, 1546000000.0],
        "version": 0.2,
        "tvm_version": "0.7.dev0",
    }


def tensor(*shape: int, dtype: str = "float32") -> list[Any]:
    return ["TENSOR", list(shape), dtype]


def depthwise(
    task: str = "depthwise_conv2d_nchw.cuda",
    weight: tuple[int, ...] = (24, 1, 3, 3),
    strides: Any = (1, 1),
    padding: Any = (1, 1, 1, 1),
    dilation: Any = (1, 1),
    words: tuple[str, ...] = ("float32",),
    **changes: Any,
) -> dict[str, Any]:
    """Return AutoTVM's line for a depthwise layer of 24 channels and 20 x 30 pixels."""
    tensors = tensor(1, 24, 20, 30), tensor(*weight)
    return autotvm(task, *tensors, strides, padding, dilation, *words, **changes)


AUTOTVM = {
    "input": ["cuda -arch=sm_90", "conv1d/direct.cuda", [["M", 100], ["N", 7]], {}],
    "config": {"index": None, "code_hash": None, "entity": [["threads", "ot", 128]]},
    "result": [[1.5e-6], 0, 0.5, 1763650805.0],
    "version": 0.2,
}
TOPHUB = [
    autotvm("conv2d_nchw.cuda", tensor(1, 3, 8, 8), tensor(4, 3, 3, 3), [1, 1], [1, 1], [1, 1]),
    depthwise(),
    depthwise(dilation=[1, 2]),
]
T4_RESULT: dict[str, Any] = {
    "timestamp": "2023-12-22 09:54:05.502007+00:00",
    "configuration": {"block_size_x": 16, "use_padding": 0},
    "times": {"compilation": 918.6, "framework": 1.2, "runtimes": [3.9, 3.8]},
    "invalidity": "correct",
    "correctness": 1,
    "measurements": [{"name": "time", "value": 3.85, "unit": "ms"}],
    "objectives": ["time"],
}
T4 = {"schema_version": "1.0.0", "results": [T4_RESULT], "metadata": {"timeunit": "milliseconds"}}
NAMED = {"operator": "conv1d", "workload": {"M": 100, "N": 7}, "target": "cpu"}
CACHE = {
    "device_name": "NVIDIA A100",
    "kernel_name": "vector_add",
    "problem_size": 100,
    "tune_params_keys": ["block_size_x"],
    "tune_params": {"block_size_x": [128, 192]},
    "cache": {"128": {"block_size_x": 128, "time": 0.04}},
}
ANSOR = {
    "i": [['["6b7583cf23c7c37d3212cad9d06e58c1", 1]', "llvm"], [[], []]],
    "r": [[0.1], 0, 1, 2],
}
TRACE = (
    b'[0, [[[["GetSBlock", [], ["y", "main"], ["b0"]]], []], [1.5e-06], {"kind": "cuda"}, []]]\n'
)
OTHERS = [
    json.dumps(AUTOTVM).encode(),
    json.dumps(T4, indent=1).encode(),
    "\n".join(map(json.dumps, METASCHEDULE)).encode(),
    TRACE,
    b"# pre-tuned\n" + "\n".join(map(json.dumps, TOPHUB)).encode(),
    json.dumps({"results": [T4_RESULT | NAMED] * 2}).encode(),
    json.dumps(CACHE, indent=1).encode(),
    json.dumps(ANSOR).encode(),
]
UNUSABLE = [OTHERS[1], OTHERS[3], OTHERS[6], OTHERS[7]]

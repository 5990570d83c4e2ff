"""Lines that can be imported, and the logs of other tools, which can't."""

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
AUTOTVM = {
    "input": ["cuda -arch=sm_90", "conv1d/direct.cuda", [["M", 100], ["N", 7]], {}],
    "config": {"index": None, "code_hash": None, "entity": [["threads", "ot", 128]]},
    "result": [[1.5e-6], 0, 0.5, 1763650805.0],
    "version": 0.2,
}
T4 = {"schema_version": "1.0.0", "results": [{"configuration": {"threads": 128}, "times": {}}]}
OTHERS = [
    json.dumps(AUTOTVM).encode(),
    json.dumps(T4, indent=1).encode(),
    "\n".join(map(json.dumps, METASCHEDULE)).encode(),
    b'[0, [[[["GetBlock", [], ["y", "main"], ["b0"]]], []], [1.5e-06]]]\n',
]

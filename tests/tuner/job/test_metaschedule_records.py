"""From the records that the project exports, MetaSchedule makes the same kernels."""

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir import meta_schedule

import templates
from templates.template import Template
from tests.templates.devices import H200
from tuner.build.compile import BuildOrder, program_of, schedule_of
from tuner.device import cpu_facts
from tuner.job.record import metaschedule_record

CPU = cpu_facts.device()
H100 = {
    "kind": "cuda",
    "arch": "sm_90",
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 232_448,
    "thread_warp_size": 32,
}
SHAPES: dict[str, dict[str, Any]] = {
    "conv1d": {"M": 200, "N": 7},
    "depthwise_conv2d": {"B": 1, "C": 2, "H": 9, "W": 10, "K": 3},
}
APPLYING = [
    (name, template)
    for name, shape in SHAPES.items()
    for limits in (CPU.limits, H200)
    for template in templates.templates_for(templates.operator(name).workload(**shape), limits)
]


@pytest.mark.parametrize(("name", "template"), APPLYING)
def test_metaschedule_record_reproduces_the_kernel(
    tmp_path: Path, name: str, template: Template[Any]
) -> None:
    workload = templates.operator(name).workload(**SHAPES[name])
    limits, target = (H200, H100) if template.kind == "cuda" else (CPU.limits, CPU.target)
    config = template.default(workload, limits)
    order = BuildOrder(workload.key, program_of(template), config, target, Path("unused.so"))
    record = metaschedule_record(order, 2e-6)
    (tmp_path / "database_workload.json").write_text(json.dumps(record["workload"]))
    line = json.dumps([0, record["tuning_record"]])
    (tmp_path / "database_tuning_record.json").write_text(line)
    database = meta_schedule.database.JSONDatabase(work_dir=str(tmp_path))
    module = tvm.IRModule({"main": template.computation(workload, config)})
    wanted = schedule_of(order).mod["main"]
    with tvm.target.Target(target), database:
        applied = relax.transform.MetaScheduleApplyDatabase()(module)["main"]
    assert tvm_ffi.structural_equal(applied.without_attr("tirx.is_scheduled"), wanted)
    found = meta_schedule.tir_integration.compile_tir(database, module, tvm.target.Target(target))
    steps = record["tuning_record"][0][0]
    # The record of a template that writes its program out whole has no schedule steps to replay.
    assert (found is not None) == bool(steps)
    assert not steps or tvm_ffi.structural_equal(found.mod["main"], wanted)

"""Conversion of a configuration to a record of MetaSchedule's JSON database.

It runs in a child process of the builder, because it needs TVM's compiler.
"""

from __future__ import annotations

from typing import Any

import templates
from templates.as_forward import adapt
from templates.records.replay import to_python
from tuner.build.compile import BuildOrder, program, scheduled


def metaschedule_record(order: BuildOrder, run_seconds: float) -> dict[str, Any]:
    """Return the lines of MetaSchedule's two database files for a built configuration.

    ``workload`` is a line of the workload file, ``[hash, module]``. ``tuning_record`` is the second
    half of a line of the record file, ``[trace, [seconds], target, arguments]``.
    """
    import tvm
    from tvm.s_tir import meta_schedule

    workload = templates.parse_key(order.workload_key)
    function = adapt(program(order)(), workload).computation(workload, order.config or {})
    module = tvm.IRModule({"main": function})
    stored = meta_schedule.database.Workload(module)
    record = meta_schedule.database.TuningRecord(
        scheduled(order).trace,
        stored,
        [run_seconds],
        tvm.target.Target(order.target),
        meta_schedule.arg_info.ArgInfo.from_prim_func(module["main"]),
    )
    return {"workload": to_python(stored.as_json()), "tuning_record": to_python(record.as_json())}

"""A configuration as a record of MetaSchedule's JSON database. Runs in a builder's child."""

from __future__ import annotations

from typing import Any

import templates
from tuner.measure.compile import BuildOrder, program, scheduled


def metaschedule_record(order: BuildOrder, run_seconds: float) -> dict[str, Any]:
    """``workload`` is a line of MetaSchedule's workload file, ``[hash, module]``;
    ``tuning_record`` the second half of a line of its record file, ``[trace, [seconds], target,
    arguments]``."""
    import tvm
    from tvm.s_tir import meta_schedule

    workload = templates.parse_key(order.workload_key)
    function = program(order)().computation(workload, order.config)
    module = tvm.IRModule({"main": function})
    stored = meta_schedule.database.Workload(module)
    record = meta_schedule.database.TuningRecord(
        scheduled(order).trace,
        stored,
        [run_seconds],
        tvm.target.Target(order.target),
        meta_schedule.arg_info.ArgInfo.from_prim_func(module["main"]),
    )
    return {"workload": _plain(stored.as_json()), "tuning_record": _plain(record.as_json())}


def _plain(value: Any) -> Any:
    """TVM's containers and numbers as Python's."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return [_plain(item) for item in value]
    return value.value

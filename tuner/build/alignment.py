"""The alignment that a compiled function may assume of its tensors."""

from __future__ import annotations

import json
from typing import Any

from templates.dtypes import BYTES_PER_ELEMENT


def element_aligned(module: Any) -> Any:
    """Return the module with each parameter aligned to the size of one element, and no more.

    TVM assumes that every buffer starts at a multiple of 64 bytes and compiles aligned vector
    accesses on that assumption. NumPy aligns an array to 16 bytes and a slice to one element only,
    and an aligned access to such memory is a segmentation fault. TE, which the schedules come from,
    can't express a parameter's alignment, so it is changed in the JSON of the module. Buffers that
    the function allocates itself keep TVM's alignment.

    The JSON is read back by ``serialization.from_json_graph_str``: ``tvm.ir.load_json`` would first
    look for programs of older versions, which takes longer than everything else here.
    """
    from tvm_ffi import serialization

    graph = json.loads(serialization.to_json_graph_str(module))
    nodes = graph["nodes"]
    for node in nodes:
        if node["type"] == "tirx.PrimFunc":
            for parameter in nodes[node["data"]["params"]]["data"]:
                kind = nodes[nodes[parameter]["data"]["ty"]]["data"]
                dtype = nodes[kind["dtype"]]["data"]["dtype"]
                kind["data_alignment"] = BYTES_PER_ELEMENT[dtype]
    return serialization.from_json_graph_str(json.dumps(graph))

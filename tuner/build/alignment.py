"""The alignment that a compiled function may assume of its tensors."""

from __future__ import annotations

import json
from typing import Any

from templates.dtypes import BYTES_PER_ELEMENT


def element_aligned(module: Any) -> Any:
    """The module with its parameters aligned to their elements, and no more.

    TVM promises 64 bytes for every buffer and compiles aligned vector accesses on the strength
    of it; NumPy gives 16, a slice one element's, and such an access outside its alignment is a
    segmentation fault. Schedules come from TE, which has no word for this, so it is written into
    the program's own JSON. What the function allocates for itself keeps its alignment.

    ``tvm.ir.load_json`` looks for programs of older versions first, which takes longer than the
    rest.
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

"""Ladder of depthwise 2-D convolution: the steps of the seed documents, in their order.

Listing them imports no TVM.
"""

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.rung import Document, Rung

TVM_STEPS = Document(
    "003",
    "TVM: 2D depthwise convolution GPU optimization",
    DepthwiseConv2dWorkload(B=3, C=4, H=16, W=32, K=7),
    {"pytorch": 69.6},
)
LECTURE = Document(
    "002",
    "Tiled convolution, a lecture",
    DepthwiseConv2dWorkload(B=1, C=1, H=1024, W=1024, K=5),
)


def _rung(document: Document, name: str, adds: str, t4_us: float | None = None) -> Rung:
    program = f"templates.depthwise_conv2d.ladder.seed_{document.number}:{name}"
    return Rung(f"{document.number} {name}", document, adds, program, t4_us)


RUNGS = (
    _rung(TVM_STEPS, "naive", "a block for each image", 3290.4),
    _rung(TVM_STEPS, "v1", "a block for each plane", 768.7),
    _rung(TVM_STEPS, "v2", "a block for each row, planes fused", 76.2),
    _rung(TVM_STEPS, "v3", "sixteen by sixteen threads, which walk along their rows", 10.1),
    _rung(TVM_STEPS, "v4", "a block for each tile of sixteen by sixteen outputs", 8.0),
    Rung(
        "003 AutoTVM",
        TVM_STEPS,
        "a search over splits, order, caches and unrolling",
        "templates.depthwise_conv2d.cuda.splits:CudaSplits",
        3.5,
        trials=60,
    ),
    _rung(LECTURE, "halo_from_global", "a tile in shared memory, its halo read from global memory"),
    _rung(LECTURE, "halo_in_shared_many_loads", "the halo in shared memory, loaded in turns"),
    _rung(LECTURE, "one_load_idle_threads", "a thread for each input of the tile, some idle"),
    _rung(LECTURE, "several_outputs", "two by two outputs a thread: less halo for a tile's size"),
)

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

RUNGS = (
    TVM_STEPS.rung("naive", "a block for each image", 3290.4),
    TVM_STEPS.rung("v1", "a block for each plane", 768.7),
    TVM_STEPS.rung("v2", "a block for each row, planes fused", 76.2),
    TVM_STEPS.rung("v3", "sixteen by sixteen threads, which walk along their rows", 10.1),
    TVM_STEPS.rung("v4", "a block for each tile of sixteen by sixteen outputs", 8.0),
    Rung(
        "003 AutoTVM",
        TVM_STEPS,
        "a search over splits, order, caches and unrolling",
        "templates.depthwise_conv2d.cuda.splits:CudaSplits",
        3.5,
        trials=60,
    ),
    LECTURE.rung("halo_from_global", "a tile in shared memory, its halo read from global memory"),
    LECTURE.rung("halo_in_shared_many_loads", "the halo in shared memory, loaded in turns"),
    LECTURE.rung("one_load_idle_threads", "a thread for each input of the tile, some idle"),
    LECTURE.rung("several_outputs", "two by two outputs a thread: less halo for a tile's size"),
)

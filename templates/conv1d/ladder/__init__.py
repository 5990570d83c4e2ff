"""The ladder of 1-D convolution: the rungs of the seed documents, in the documents' order.
Importing this does not import TVM."""

from templates.conv1d.workload import Conv1dWorkload
from templates.rung import Document, Rung

TVM_STEPS = Document(
    "000",
    "TVM: 1D convolution GPU optimization",
    Conv1dWorkload(M=16384, N=32),
    {"numpy": 236.9, "pytorch": 149.1},
)
TRITON = Document(
    "001",
    "1D convolution in Triton",
    Conv1dWorkload(M=1_500_000, N=2047, mode="valid", kind="correlate"),
)
LECTURE = Document(
    "002",
    "Tiled convolution, a lecture",
    Conv1dWorkload(M=2**20, N=5, mode="same", kind="correlate"),
)
CUDA_STEPS = Document(
    "004",
    "Fast 1D convolution in CUDA",
    Conv1dWorkload(M=1_000_000, N=2047, mode="valid", kind="correlate"),
)

RUNGS = (
    TVM_STEPS.rung(
        "naive",
        "a block for each output, whose sum runs over all M + N - 1 positions under a guard",
        18286.0,
        every_input=True,
    ),
    TVM_STEPS.rung("v1", "the sum runs over the taps alone", 107.0),
    TVM_STEPS.rung("v2", "eight threads a block", 25.1),
    TVM_STEPS.rung("v3", "four by four threads a block", 15.8),
    TVM_STEPS.rung("v4", "sums in registers, weights in shared memory four taps at a time", 14.7),
    TVM_STEPS.rung("v5", "eight by four threads, eight taps at a time, unrolled", 12.4),
    Rung(
        "000 AutoTVM",
        TVM_STEPS,
        "a search over threads, steps, caches and unrolling",
        "templates.conv1d.cuda.seeds.splits:CudaSplits",
        40.5,
        trials=60,
    ),
    TRITON.rung("block_form", "2048 outputs a block, four taps a step, no shared memory"),
    LECTURE.rung("halo_from_global", "a tile in shared memory, its halo read from global memory"),
    LECTURE.rung("halo_in_shared_many_loads", "the halo in shared memory, loaded in turns"),
    LECTURE.rung("one_load_idle_threads", "a thread for each input of the tile, some idle"),
    LECTURE.rung("several_outputs", "four outputs a thread: less halo for a tile's size"),
    CUDA_STEPS.rung("naive", "a thread for each output, 512 a block", 4604.65),
    CUDA_STEPS.rung("shared", "input tile and weights in shared memory", 4672.56),
    CUDA_STEPS.rung("registers", "eight neighbouring outputs a thread, in registers", 894.524),
    CUDA_STEPS.rung("micro", "weights padded to 64 bytes and fetched four at a time", 868.636),
    *(
        CUDA_STEPS.rung(f"threads={threads}", f"the registers rung with {threads} threads a block")
        for threads in (64, 128, 256, 512, 1024)
    ),
)

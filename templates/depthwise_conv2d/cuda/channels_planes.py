"""Search space of the tensor-core form for channels last and long kernels on CUDA."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.halves import has_tensor_cores_for
from templates.kernels.occupancy import MAX_RESIDENT, bounded_occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

CHANNELS = 8  # of a block: a vector of 16 bytes
MIN_TAPS = 81  # with fewer, `channels_toeplitz` has all of them in registers
MAX_REGISTERS = 232  # the most that a thread may be estimated to need
SPARED = 20  # how many of these the compiler can save if it must
SIZE = 2  # bytes of an element


class CudaChannelsPlanes(Template[DepthwiseConv2dWorkload]):
    """16-bit products for long kernels (``schedules/channels_planes.cu``).

    Channels are last. In shared memory, a block makes a plane of each of its eight channels. A row
    of taps is then a product with a Toeplitz matrix. A fragment of 16 rows has ``fragment_rows``
    rows of each of 16 / ``fragment_rows`` images. Knobs:

    - ``fragment_rows``: see above.
    - ``groups``: fragments that a warp sums, all of one channel.
    - ``column_tiles``: width of a fragment's outputs, in tiles of eight columns.
    - ``row_warps``: warps that share a channel.
    - ``walks``: number of sets of images for which a block stages its taps once.
    - ``resident``: the least number of blocks for which a unit has room.
    - ``stores``: how results are cached.
    """

    name = "channels_planes"
    kind = "cuda"
    version = 2
    arithmetic = TENSOR_CORES

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept 16-bit NHWC on CUDA at stride 1 without dilation or a multiplier, from 81 taps on.

        float16 needs compute capability 7.5, bfloat16 8.0. Channels must be whole vectors.
        """
        return (
            super().applies(workload, limits)
            and has_tensor_cores_for(workload.dtype, limits)
            and (workload.layout, workload.multiplier) == ("NHWC", 1)
            and workload.stride == workload.dilation == 1
            and workload.C % CHANNELS == 0
            and workload.taps >= MIN_TAPS
            and Layout(workload, _smallest(workload)).shared_bytes <= limits.shared_memory
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height = workload.out_height
        space = ConfigSpace(self.name, self.version)
        space.knob("fragment_rows", [16, 8] if workload.B > 1 else [16])
        space.knob("groups", [1, 2, 3, 4])
        space.knob("row_warps", [1, 2, 4])
        space.knob("column_tiles", _column_tiles(workload))
        space.knob("walks", [n for n in (1, 2, 4, 8) if n == 1 or n < 2 * workload.B])
        space.knob("resident", [1, 2, 3, 4])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "a block covers less than twice the rows, or as few as it can",
            lambda c: _strip(c) < 2 * height or c["groups"] * c["row_warps"] == 1,
            reads=("fragment_rows", "groups", "row_warps"),
        )
        space.constraint(
            "a block covers less than twice the images, or as few as it can",
            lambda c: 16 // c["fragment_rows"] * c["walks"] < 2 * workload.B or c["walks"] == 1,
            reads=("fragment_rows", "walks"),
        )
        space.constraint(
            "the threads and the registers of the resident blocks fit",
            lambda c: _resident_blocks_fit(workload, c, limits),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory for the resident blocks",
            lambda c: Layout(workload, c).shared_bytes * c["resident"] <= limits.shared_memory,
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return a configuration with the columns and rows that fit, and a warp for each
        channel."""
        space, smallest = self.space(workload, limits), _smallest(workload)
        for tiles in reversed(_column_tiles(workload)):
            for groups in (4, 3, 2, 1):
                config = smallest | {"column_tiles": tiles, "groups": groups}
                if config in space:
                    return config
        return smallest

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        layout, registers = Layout(workload, config), _registers(workload, config)
        tiles, groups = config["column_tiles"], config["groups"]
        products = workload.used_taps[0].count * groups * tiles * layout.distances / 2
        loads = workload.used_taps[0].count * (groups * layout.chunks + 2 * layout.distances)
        outputs = workload.out_height * workload.out_width * workload.B * workload.C
        computed = layout.blocks * layout.threads // 32 * config["walks"] * groups * tiles * 128
        staged = layout.blocks * config["walks"] * layout.images * layout.rows * layout.chunks * 64
        return {
            **bounded_occupancy(
                config, layout.blocks, layout.threads, registers, limits, layout.shared_bytes
            ),
            "products": layout.blocks * layout.threads // 32 * config["walks"] * products,
            "products_per_warp": config["walks"] * products,
            "loads_per_product": loads / products,
            "padded_share": computed / outputs,
            "staged_share": staged / (workload.bytes / SIZE),
            "walks": config["walks"],
            "streaming": config["stores"] == "streaming",
        }


class Layout:
    """A block's work and shared memory, as ``channels_planes.cu`` lays them out."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: Config) -> None:
        self._workload, self._config = workload, config
        down, across = workload.used_taps
        self._taps = down.count
        self.images: int = 16 // config["fragment_rows"]
        self.distances: int = (across.count + 14) // 8
        self.chunks: int = config["column_tiles"] + self.distances - 1
        self.rows: int = min(_strip(config) + down.count - 1, workload.H)

    @property
    def threads(self) -> int:
        return int(32 * CHANNELS * self._config["row_warps"])

    @property
    def blocks(self) -> int:
        """Return the number of blocks in the grid."""
        workload, config = self._workload, self._config
        across = ceil_div(workload.out_width, 8 * config["column_tiles"])
        down = ceil_div(workload.out_height, _strip(config))
        walks = ceil_div(workload.B, config["walks"] * self.images)
        return int(workload.C // CHANNELS * across * down * walks)

    @property
    def shared_bytes(self) -> int:
        pitch = 16 * (self.chunks | 1)
        taps = ceil_div(CHANNELS * self._taps * (4 * self.distances + 5), 4) * 16
        planes = CHANNELS * self.images * self.rows * pitch
        results = self.images * _strip(self._config) * (8 * self._config["column_tiles"] + 1) * 16
        return int(taps + pitch + 112 + max(planes, results))


def _strip(config: Config) -> int:
    """Return the output rows of a block."""
    return int(config["fragment_rows"] * config["groups"] * config["row_warps"])


def _smallest(workload: DepthwiseConv2dWorkload) -> Config:
    """Return the configuration that needs the least shared memory."""
    return {
        "template": CudaChannelsPlanes.name,
        "fragment_rows": 16,
        "groups": 1,
        "row_warps": 1,
        "column_tiles": _column_tiles(workload)[0],
        "walks": 1,
        "resident": 1,
        "stores": "cached",
    }


def _column_tiles(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the numbers of tiles that divide a row evenly."""
    whole = ceil_div(workload.out_width, 8)
    return [n for n in range(1, min(whole, 8) + 1) if ceil_div(whole, ceil_div(whole, n)) == n]


def _resident_blocks_fit(
    workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
) -> bool:
    """Return whether a unit has enough threads and registers for the resident blocks."""
    threads = Layout(workload, config).threads
    registers = _registers(workload, config)
    return bool(
        threads <= limits.threads_per_block
        and threads * config["resident"] <= MAX_RESIDENT
        and registers <= MAX_REGISTERS
        and (registers - SPARED) * threads * config["resident"] <= limits.registers_per_unit
    )


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: sums, taps, a fragment, addresses."""
    sums = 4 * config["groups"] * config["column_tiles"]
    return int(sums + Layout(workload, config).distances + 56)

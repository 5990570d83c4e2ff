"""Search space of the weight's gradient, channels last, on tensor cores."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.gradients.weight_work import Work, blocks, ring
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.halves import has_tensor_cores_for
from templates.kernels.occupancy import bounded_occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

SIZE = 2  # bytes of an element
VECTOR = 8  # channels in 16 bytes
LINE = 8  # outputs of a line
LINES = 16  # of a product
CHANNELS = (8, 128)  # least and most of a block
MAX_REGISTERS = 232  # the most that a thread may be estimated to need
BESIDE = 36  # registers for addresses and the like


class CudaWeightMatrices(Template[DepthwiseConv2dWorkload]):
    """16-bit products of columns of input and gradient (``schedules/weight_tensor.cu``).

    Channels are last. There is a product for each channel and row of taps, summed over lines of
    eight outputs. Knobs:

    - ``images``: images of a block, which goes down all of them side by side.
    - ``channels``, ``warp_channels``: channels of a block, and of a warp.
    - ``copied_steps``, ``stages``: the rows of ``copied_steps`` steps are copied together,
      ``stages`` - 1 times as many steps ahead.
    - ``blocks``: approximate number of blocks. A second launch adds up their sums.
    - ``resident``: the least number of blocks for which a unit has room.
    """

    name = "weight_matrices"
    kind = "cuda"
    version = 4
    arithmetic = TENSOR_CORES
    computes_gradients = True

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept 16-bit gradients of a weight in layout NHWC on CUDA.

        There must be no multiplier and no activation. float16 needs compute capability 7.5,
        bfloat16 8.0. Channels must be whole vectors, the taps at most eight outputs' columns apart,
        and their sums must fit in registers.
        """
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_weight"
            and (workload.layout, workload.multiplier) == ("NHWC", 1)
            and has_tensor_cores_for(workload.dtype, limits)
            and workload.activation == "none"
            and workload.C % VECTOR == 0
            and (workload.used_kernel[1] - 1) * workload.dilation // workload.stride <= LINE
            and _fits(workload, _smallest(workload, limits), limits)
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("warp_channels", [2, 4, 8])
        space.knob("channels", _channels(workload))
        space.knob("images", [n for n in (1, 2, 4, 8, 16) if n <= workload.B])
        space.knob("stages", [2, 3, 4])
        space.knob("copied_steps", [1, 2, 4])
        space.knob("blocks", blocks(workload, limits.units))
        space.knob("resident", [1, 2, 3, 4])
        space.constraint(
            f"at most {MAX_REGISTERS} registers a thread",
            lambda c: _registers(workload, c) <= MAX_REGISTERS,
            reads=("warp_channels",),
        )
        space.constraint(
            "a block has no more than 768 threads",
            lambda c: threads(workload, c) <= min(768, limits.threads_per_block),
            reads=("images",),
        )
        space.constraint(
            "the products have less than a third as many empty lines as filled ones, or images is "
            "1, or all lines fill at most half of a product",
            lambda c: (
                _sets(workload, c) * LINES < 1.34 * c["images"] * _groups(workload)
                or c["images"] == 1
                or 2 * c["images"] * _groups(workload) <= LINES
            ),
            reads=("images",),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory,
            reads=("copied_steps",),
        )
        space.constraint(
            "every block has rows, and more steps than are copied ahead",
            lambda c: _has_work(workload, c, limits),
            reads=("blocks",),
        )
        space.constraint(
            "the threads, the registers and the shared memory of the resident blocks fit",
            lambda c: _fits(workload, c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return a configuration with as many images as fill the lines of a product."""
        config = _smallest(workload, limits)
        images = [n for n in (1, 2, 4, 8, 16) if n <= workload.B]
        for n in images:
            changed = config | {"images": n}
            few = n == 1 or n * _groups(workload) <= LINES
            if few and _fits(workload, changed, limits):
                config = changed
        changed = config | {"channels": _usual(workload)}
        return changed if _fits(workload, changed, limits) else config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        share, count = work(workload, config), threads(workload, config)
        registers, shared = _registers(workload, config), 4 * shared_words(workload, config)
        products = workload.used_kernel[0] * _phases(workload) * config["warp_channels"]
        return {
            **bounded_occupancy(config, share.blocks, count, registers, limits, shared),
            "steps": share.steps,
            "products_per_step": products,
            "products": share.blocks * share.steps * products * count // 32,
            "steps_ahead": config["copied_steps"] * (config["stages"] - 1),
            "steps_per_row": share.steps * share.ranges / share.rows,
            "run_bytes": config["channels"] * SIZE,
            "workspace": share.workspace,
            "filled": config["images"]
            * workload.out_width
            / (_sets(workload, config) * LINES * LINE),
        }


def work(workload: DepthwiseConv2dWorkload, config: Config) -> Work:
    """Return how a configuration shares out the work."""
    return Work(
        workload,
        columns=LINE,
        tap_rows=workload.used_kernel[0],
        tap_columns=workload.used_kernel[1],
        channels=config["channels"],
        points=config["images"] * _groups(workload),
        images=config["images"],
        blocks_wanted=config["blocks"],
    )


def threads(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of threads of a block."""
    return int(32 * config["channels"] // config["warp_channels"] * _sets(workload, config))


def shared_words(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the 32-bit words of shared memory.

    They hold rows of inputs and gradients, or, if that is more, the sums of all taps and the
    matrices of a row of taps.
    """
    channels, images, s = config["channels"], config["images"], workload.stride
    pitch, groups = 16 * (channels // VECTOR | 1), _groups(workload)
    inputs = (groups + 1) * (LINE * s * pitch + 32)
    step = images * (s * inputs + groups * (LINE * pitch + 32))
    # The sums of all taps of each set, and the matrices of each warp for a row of taps.
    taps = workload.used_kernel[0] + workload.bias
    sums = _sets(workload, config) * channels * (taps * workload.used_kernel[1] + s * LINES * LINE)
    return int(max(sums, config["stages"] * config["copied_steps"] * step // 4))


def bias_tap(workload: DepthwiseConv2dWorkload) -> int | None:
    """Return a row of taps whose products can hold the sums of the bias, or None.

    Every row of the gradient must meet this row of taps within the input, and no tap may use the
    last input column of a product.
    """
    down, across = workload.used_taps
    s, d = workload.stride, workload.dilation
    if (across.count - 1) * d // s >= LINE:
        return None
    last = (workload.out_height - 1) * s
    tap = max(0, ceil_div(down.before, d))
    return tap if tap < down.count and last + tap * d - down.before < workload.H else None


def _groups(workload: DepthwiseConv2dWorkload) -> int:
    """Return the number of lines of a row."""
    return ceil_div(workload.out_width, LINE)


def _sets(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of warps with the same channels."""
    return ceil_div(config["images"] * _groups(workload), LINES)


def _phases(workload: DepthwiseConv2dWorkload) -> int:
    """Return the number of different remainders of a row's taps modulo the stride."""
    s, d = workload.stride, workload.dilation
    return len({u * d % s for u in range(workload.used_kernel[1])})


def _channels(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the divisors of the channels that are whole vectors."""
    least, most = CHANNELS
    return [n for n in range(least, most + 1, VECTOR) if workload.C % n == 0]


def _usual(workload: DepthwiseConv2dWorkload) -> int:
    return max(n for n in _channels(workload) if n <= 32)


def _smallest(workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
    return {
        "template": CudaWeightMatrices.name,
        "warp_channels": 2,
        "channels": _channels(workload)[0],
        "images": 1,
        "stages": 2,
        "copied_steps": 1,
        "blocks": limits.units,
        "resident": 1,
    }


def _has_work(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    share = work(workload, config)
    few = config["blocks"] == limits.units
    ahead = (config["stages"] - 1) * config["copied_steps"]
    return (few or share.across * share.rows >= config["blocks"]) and (
        (config["stages"], config["copied_steps"]) == (2, 1) or ahead < share.steps
    )


def _fits(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    registers, count = _registers(workload, config), threads(workload, config)
    resident = config["resident"]
    return (
        registers <= MAX_REGISTERS
        and count <= min(768, limits.threads_per_block)
        and registers * count * resident <= limits.registers_per_unit
        and 4 * shared_words(workload, config) * resident <= limits.shared_memory
    )


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: sums, the ring, a row's operands, addresses."""
    own, rows = config["warp_channels"], workload.used_kernel[0]
    bias = workload.bias and bias_tap(workload) is None
    sums = (rows * workload.stride + bias) * own * 4
    return int(sums + ring(workload, rows) * 2 * own + 4 * own + BESIDE)

"""Search space of the form that sums padded copies of planes on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_PLANE_BYTES = 2**18
MAX_UNROLLED = 256


class CpuPlanes(Template[DepthwiseConv2dWorkload]):
    """A task takes ``planes_per_task`` planes, one after the other, through one padded copy.

    The copy's border stays zero. Its planes are summed in one of three forms:

    - ``rows``: a vector of ``lanes`` outputs in each of ``tile`` rows is summed at a time, so that
      each vector of the input is loaded once for all these rows. The last vector and the last rows
      overlap those before. A tile of all rows leaves out the taps on padding.
    - ``bands``: the same, but only the rows that a tile needs are copied, for planes that are
      larger than the nearest cache. Rows that two tiles share are copied twice.
    - ``flat``: the rows, with the padding between them, are one long row, and ``tile`` vectors of
      it are summed at a time. This form wastes few lanes on narrow planes, but copies the outputs.

    With stride 2, the even and odd rows and columns form four separate planes, the phases. There
    the taps of neighbouring outputs are neighbours, as with stride 1.
    """

    name = "planes"
    kind = "cpu"
    version = 3
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept basic workloads whose padded plane has at most 2^18 bytes."""
        return (
            super().applies(workload, limits)
            and workload.is_basic
            and padded_bytes(workload, workload.out_height, 16) <= MAX_PLANE_BYTES
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        rows, columns = workload.out_height, workload.out_width
        height, _ = workload.used_kernel
        space = ConfigSpace(self.name, self.version)
        space.knob("form", ["rows", "flat", "bands"])
        space.knob("lanes", [4, 8, 16])
        space.knob("tile", [1, 2, 3, 4, 6, 7, 8, 14])
        space.knob("planes_per_task", [1, 2, 4, 8, 16, 64, 256])
        space.knob("threading", ["serial", "parallel"])
        space.constraint(
            'unless form is "flat", a vector is less than twice a row, and a tile has no more rows '
            "than a plane",
            lambda c: c["form"] == "flat" or (c["lanes"] < 2 * columns and c["tile"] <= rows),
        )
        space.constraint(
            'with form "flat", a tile has no more vectors than a plane needs',
            lambda c: (
                c["form"] != "flat"
                or c["tile"] == 1
                or c["lanes"] * (c["tile"] - 1) < flat_outputs(workload)
            ),
        )
        space.constraint(
            f"at most {MAX_UNROLLED} vector multiply-adds unrolled",
            lambda c: c["tile"] == 1 or c["tile"] * height <= MAX_UNROLLED,
        )
        space.constraint(
            "a task has no more planes than the workload",
            lambda c: c["planes_per_task"] == 1 or c["planes_per_task"] <= workload.B * workload.C,
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "form": "flat",
            "lanes": max(4, min(16, limits.vector_bytes // 4)),
            "tile": 1,
            "planes_per_task": 1,
            "threading": "serial",
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        lanes, tile, each = config["lanes"], config["tile"], config["planes_per_task"]
        planes = workload.B * workload.C
        tasks = ceil_div(planes, each)
        if config["form"] == "flat":
            patch = lanes * tile
            computed = ceil_div(flat_outputs(workload), patch) * patch
        else:
            rows, columns = workload.out_height, workload.out_width
            computed = ceil_div(rows, tile) * tile * ceil_div(columns, lanes) * lanes
        near = tile if config["form"] == "bands" else workload.out_height
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": each * computed * workload.taps,
            "registers": lanes * tile * 4 / limits.vector_bytes,
            "tile_bytes": 2 * padded_bytes(workload, near, lanes * tile),
            "padded_share": computed / (workload.out_height * workload.out_width),
        }


def pitch(workload: DepthwiseConv2dWorkload) -> int:
    """Return the floats from one row of a padded phase to the next.

    With stride 1, the padding at the right of a row is also the left padding of the next row.
    """
    return workload.out_width + workload.used_kernel[1] // 2


def flat_outputs(workload: DepthwiseConv2dWorkload) -> int:
    """Return the number of places in a flat plane from the first output to the last."""
    return (workload.out_height - 1) * pitch(workload) + workload.out_width


def phase(workload: DepthwiseConv2dWorkload, rows: int) -> int:
    """Return the floats of the padded input for ``rows`` rows of outputs.

    With stride 2, each of the four phases has so many floats.
    """
    last = (rows - 1) * workload.stride + workload.used_kernel[0] - 1
    return (last // workload.stride + 1) * pitch(workload)


def padded_bytes(workload: DepthwiseConv2dWorkload, rows: int, patch: int) -> int:
    """Return the bytes of the padded input for ``rows`` rows of outputs.

    They include the bytes that a last patch of ``patch`` outputs reads beyond that input.
    """
    return 4 * (workload.stride**2 * phase(workload, rows) + workload.used_kernel[1] + patch)

"""Tiles of samples in which all gradients of a convolution at stride 1 are made at once."""

from __future__ import annotations

from dataclasses import dataclass

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload


@dataclass(frozen=True)
class Frame:
    """A tile's place e stands for its ``first_sample`` + e and its ``first_output`` + e. Whatever
    the padding, the sum of output e is then of the samples from e - ``reach`` to e, tap t meets
    that at e - reach + t * dilation, and sample e's gradient is of the outputs from e to
    e + reach."""

    reach: int
    """From the first tap to the last, in samples."""
    samples_ahead: int
    """Places of the first tile before the first sample."""
    outputs_ahead: int
    """The same of the first output."""
    extent: int
    """Places up to the last sample or output."""

    @classmethod
    def of(cls, workload: Conv1dWorkload) -> Frame:
        reach = workload.span - 1
        late = workload.left - reach  # the output in the place of sample 0
        samples, outputs = max(0, late), max(0, -late)
        extent = max(workload.M + samples, workload.length + outputs)
        return cls(reach, samples, outputs, extent)

    def tiles(self, places: int) -> int:
        """Of so many places each."""
        return ceil_div(self.extent, places)

    def first_sample(self, start: int) -> int:
        """Of a tile that starts at that place."""
        return start - self.samples_ahead

    def first_output(self, start: int) -> int:
        """The same."""
        return start - self.outputs_ahead

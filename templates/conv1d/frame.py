"""Frame: a common coordinate for samples and outputs. Programs use it to compute all gradients of a
convolution at stride 1 tile by tile."""

from __future__ import annotations

from dataclasses import dataclass

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload


@dataclass(frozen=True)
class Frame:
    """Place e of a tile is sample ``first_sample`` + e and output ``first_output`` + e.

    This holds for any padding: the output at place e depends on the samples at places e - ``reach``
    to e. Tap t meets the sample at place e - reach + t * dilation. The gradient of the sample at
    place e depends on the outputs at places e to e + reach.
    """

    reach: int
    """Distance from the first tap to the last, in samples."""
    samples_ahead: int
    """Places in the first tile before the first sample."""
    outputs_ahead: int
    """Places in the first tile before the first output."""
    extent: int
    """Places up to the last sample or output, whichever is later."""

    @classmethod
    def of(cls, workload: Conv1dWorkload) -> Frame:
        reach = workload.span - 1
        late = workload.left - reach  # the output in the place of sample 0
        samples, outputs = max(0, late), max(0, -late)
        extent = max(workload.M + samples, workload.length + outputs)
        return cls(reach, samples, outputs, extent)

    def tiles(self, places: int) -> int:
        """Return the number of tiles of ``places`` places each."""
        return ceil_div(self.extent, places)

    def first_sample(self, start: int) -> int:
        """Return the sample at place 0 of the tile that begins at ``start``; it may be negative."""
        return start - self.samples_ahead

    def first_output(self, start: int) -> int:
        """Return the output at place 0 of the tile that begins at ``start``; it may be negative."""
        return start - self.outputs_ahead

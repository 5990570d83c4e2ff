"""ByRow: depthwise convolution's templates for gradients, applied to signals as one-row images."""

from __future__ import annotations

from templates.conv1d.as_image_column import ByColumn, SignalsAsImage, as_image
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits


class ByRow(ByColumn):
    """A gradient template of depthwise convolution, applied to signals as images of one row.

    Each column of the image is a sample. It is for both layouts, if channels are not dense.
    Subclasses set ``template``.
    """

    computes_gradients = True

    def image(self, workload: Conv1dWorkload) -> SignalsAsImage:
        before, behind = workload.pads
        shape = {"H": 1, "W": workload.M, "KH": 1, "KW": workload.N}
        layout = "NHWC" if workload.layout == "NWC" else "NCHW"
        return as_image(workload, **shape, padding=(0, before, 0, behind), layout=layout)

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        fits = not workload.is_forward and not workload.is_dense
        return fits and self.template.applies(self.image(workload), limits)

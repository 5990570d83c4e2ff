"""Tuned kernels in PyTorch, for whole models, for single layers and for calls by name.

:func:`optimize_` replaces the convolutions of a model, and :func:`restore_` undoes it.
:class:`Conv1d`, :class:`GatedConv1d` and :class:`DepthwiseConv2d` are single layers. :func:`use`
sets where the operators ``torch.ops.convtune.*`` take kernels from.

from tuner.client.client import Client
from tuner.torch import optimize_

report = optimize_(model, images, source=Client("http://gpu-host:8000"))
print(report)
"""

from tuner.torch.gated import GatedConv1d
from tuner.torch.model.capture import Captured, capture
from tuner.torch.model.optimize import optimize_
from tuner.torch.model.report import Report, Row
from tuner.torch.model.swap import restore_
from tuner.torch.modules import Conv1d, DepthwiseConv2d
from tuner.torch.operators import use

__all__ = [
    "Captured", "Conv1d", "DepthwiseConv2d", "GatedConv1d", "Report", "Row", "capture", "optimize_",
    "restore_", "use",
]  # fmt: skip

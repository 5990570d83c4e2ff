"""Convolutions whose kernels convtune tuned, called like PyTorch's own:

    y = conv1d(x, weight, bias, padding=1, activation="relu")

If the package has a kernel for the call on the tensors' device, that kernel computes it. PyTorch
computes all other calls. ``kernels.json`` lists the kernels, and ``python -m NAME.check`` compares
them with PyTorch on this machine.
"""

from .functions import conv1d, depthwise_conv2d

__all__ = ["conv1d", "depthwise_conv2d"]

"""Convolutions whose kernels convtune tuned, called as PyTorch's own:

    y = conv1d(x, weight, bias, padding=1, activation="relu")

A call for which the package has a kernel on the tensors' device is computed by it, any other by
PyTorch. ``kernels.json`` lists the kernels, and ``python -m NAME.check`` compares them with PyTorch
on the machine at hand.
"""

from .functions import conv1d, depthwise_conv2d

__all__ = ["conv1d", "depthwise_conv2d"]

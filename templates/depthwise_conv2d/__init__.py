"""Depthwise 2-D convolution, declared as an operator."""

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.operator import Operator

OPERATOR = Operator(
    workload=DepthwiseConv2dWorkload,
    summary="depthwise 2-D convolution, as PyTorch's conv2d with groups = C",
    example={"B": 3, "C": 4, "H": 16, "W": 32, "K": 7},
)

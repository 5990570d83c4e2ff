"""The operator ``conv1d``: 1-D convolution and its gradients."""

from templates.conv1d.workload import Conv1dWorkload
from templates.operator import Operator

OPERATOR = Operator(
    workload=Conv1dWorkload,
    summary="1-D convolution or correlation, as numpy.convolve and numpy.correlate",
    example={"M": 16384, "N": 32},
)

"""Depthwise 2-D convolution."""

from templates.depthwise_conv2d.cpu_planes import CpuPlanes
from templates.depthwise_conv2d.cpu_tiled import CpuTiled
from templates.depthwise_conv2d.cuda_tiled import CudaTiled

TEMPLATES = (CpuTiled(), CpuPlanes(), CudaTiled())

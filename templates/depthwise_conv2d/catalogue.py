"""The templates of depthwise 2-D convolution."""

from templates.depthwise_conv2d.cpu_channels import CpuChannels
from templates.depthwise_conv2d.cpu_planes import CpuPlanes
from templates.depthwise_conv2d.cpu_tiled import CpuTiled
from templates.depthwise_conv2d.cuda_channels import CudaChannels
from templates.depthwise_conv2d.cuda_direct import CudaDirect
from templates.depthwise_conv2d.cuda_patch import CudaPatch
from templates.depthwise_conv2d.cuda_rows import CudaRows
from templates.depthwise_conv2d.cuda_splits import CudaSplits
from templates.depthwise_conv2d.cuda_strategies import CudaStrategies
from templates.depthwise_conv2d.cuda_tiled import CudaTiled
from templates.depthwise_conv2d.cuda_toeplitz import CudaToeplitz

TEMPLATES = (
    CpuTiled(),
    CpuPlanes(),
    CpuChannels(),
    CudaTiled(),
    CudaChannels(),
    CudaDirect(),
    CudaRows(),
    CudaStrategies(),
    CudaSplits(),
    CudaPatch(),
    CudaToeplitz(),
)

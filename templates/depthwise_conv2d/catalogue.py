"""Catalogue of the templates of depthwise 2-D convolution."""

from templates.depthwise_conv2d.cpu.channels import CpuChannels
from templates.depthwise_conv2d.cpu.input_pieces import CpuInputPieces
from templates.depthwise_conv2d.cpu.planes import CpuPlanes
from templates.depthwise_conv2d.cpu.tiled import CpuTiled
from templates.depthwise_conv2d.cpu.weight_channels import CpuWeightChannels
from templates.depthwise_conv2d.cpu.weight_pieces import CpuWeightPieces
from templates.depthwise_conv2d.cuda.channels import CudaChannels
from templates.depthwise_conv2d.cuda.channels_planes import CudaChannelsPlanes
from templates.depthwise_conv2d.cuda.channels_toeplitz import CudaChannelsToeplitz
from templates.depthwise_conv2d.cuda.direct import CudaDirect
from templates.depthwise_conv2d.cuda.gradients.input_channels import (
    CudaInputChannels,
    CudaInputPlanes,
)
from templates.depthwise_conv2d.cuda.gradients.weight_channels import (
    CudaWeightChannels,
    CudaWeightPlanes,
)
from templates.depthwise_conv2d.cuda.gradients.weight_matrices import CudaWeightMatrices
from templates.depthwise_conv2d.cuda.patch import CudaPatch
from templates.depthwise_conv2d.cuda.rows import CudaRows
from templates.depthwise_conv2d.cuda.splits import CudaSplits
from templates.depthwise_conv2d.cuda.strategies import CudaStrategies
from templates.depthwise_conv2d.cuda.tiled import CudaTiled
from templates.depthwise_conv2d.cuda.toeplitz import CudaToeplitz

TEMPLATES = (
    CpuTiled(),
    CpuPlanes(),
    CpuChannels(),
    CpuWeightChannels(),
    CpuInputPieces(),
    CpuWeightPieces(),
    CudaTiled(),
    CudaChannels(),
    CudaChannelsToeplitz(),
    CudaChannelsPlanes(),
    CudaDirect(),
    CudaRows(),
    CudaStrategies(),
    CudaSplits(),
    CudaPatch(),
    CudaToeplitz(),
    CudaInputChannels(),
    CudaInputPlanes(),
    CudaWeightChannels(),
    CudaWeightMatrices(),
    CudaWeightPlanes(),
)

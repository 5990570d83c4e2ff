"""The templates of 1-D convolution."""

from templates.conv1d.cpu_direct import CpuDirect
from templates.conv1d.cpu_fft import CpuFft
from templates.conv1d.cpu_signals import CpuSignals
from templates.conv1d.cuda_blocks import CudaBlocks
from templates.conv1d.cuda_direct import CudaDirect
from templates.conv1d.cuda_registers import CudaRegisters
from templates.conv1d.cuda_signals import CudaSignals
from templates.conv1d.cuda_splits import CudaSplits
from templates.conv1d.cuda_strategies import CudaStrategies
from templates.conv1d.cuda_toeplitz import CudaToeplitz
from templates.conv1d.cuda_warpgroup import CudaWarpgroup

TEMPLATES = (
    CpuDirect(),
    CpuFft(),
    CpuSignals(),
    CudaDirect(),
    CudaToeplitz(),
    CudaWarpgroup(),
    CudaRegisters(),
    CudaSignals(),
    CudaStrategies(),
    CudaSplits(),
    CudaBlocks(),
)

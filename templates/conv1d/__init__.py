"""1-D convolution."""

from templates.conv1d.cpu_direct import CpuDirect
from templates.conv1d.cpu_fft import CpuFft
from templates.conv1d.cuda_direct import CudaDirect
from templates.conv1d.cuda_toeplitz import CudaToeplitz

TEMPLATES = (CpuDirect(), CpuFft(), CudaDirect(), CudaToeplitz())

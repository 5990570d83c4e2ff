"""The templates of 1-D convolution and of its gradients. :class:`Operator` reads them from here."""

from templates.conv1d.by_depthwise import (
    CpuChannels,
    CpuInputPieces,
    CpuWeightPieces,
    CudaChannels,
    CudaInputChannels,
    CudaWeightChannels,
)
from templates.conv1d.cpu.backward import CpuBackward
from templates.conv1d.cpu.direct import CpuDirect
from templates.conv1d.cpu.fft import CpuFft
from templates.conv1d.cpu.gated import CpuGated
from templates.conv1d.cpu.input_products import CpuInputProducts
from templates.conv1d.cpu.input_signals import CpuInputSignals
from templates.conv1d.cpu.signals import CpuSignals
from templates.conv1d.cpu.weight_products import CpuWeightProducts
from templates.conv1d.cuda.bank import CudaBank
from templates.conv1d.cuda.direct import CudaDirect
from templates.conv1d.cuda.fft import CudaFft
from templates.conv1d.cuda.gated import CudaGated
from templates.conv1d.cuda.gradients.backward_channels import CudaBackwardChannels
from templates.conv1d.cuda.gradients.backward_rows import CudaBackwardRows
from templates.conv1d.cuda.gradients.input_products import CudaInputProducts
from templates.conv1d.cuda.gradients.input_rows import CudaInputRows
from templates.conv1d.cuda.gradients.weight_products import CudaWeightProducts
from templates.conv1d.cuda.gradients.weight_rows import CudaWeightRows
from templates.conv1d.cuda.hankel import CudaHankel
from templates.conv1d.cuda.implicit import CudaImplicit
from templates.conv1d.cuda.implicit_warpgroup import CudaImplicitWarpgroup
from templates.conv1d.cuda.partitions import CudaPartitions
from templates.conv1d.cuda.registers import CudaRegisters
from templates.conv1d.cuda.seeds.blocks import CudaBlocks
from templates.conv1d.cuda.seeds.splits import CudaSplits
from templates.conv1d.cuda.seeds.strategies import CudaStrategies
from templates.conv1d.cuda.sharing.signals_fourier import CudaSignalsFourier
from templates.conv1d.cuda.sharing.signals_toeplitz import CudaSignalsToeplitz
from templates.conv1d.cuda.signals import CudaSignals
from templates.conv1d.cuda.toeplitz import CudaToeplitz
from templates.conv1d.cuda.warpgroup import CudaWarpgroup
from templates.conv1d.cuda.window import CudaWindow

TEMPLATES = (
    CpuDirect(),
    CpuFft(),
    CpuSignals(),
    CpuChannels(),
    CpuGated(),
    CpuInputPieces(),
    CpuInputSignals(),
    CpuWeightPieces(),
    CpuBackward(),
    CpuInputProducts(),
    CpuWeightProducts(),
    CudaDirect(),
    CudaToeplitz(),
    CudaWarpgroup(),
    CudaFft(),
    CudaPartitions(),
    CudaRegisters(),
    CudaSignals(),
    CudaWindow(),
    CudaHankel(),
    CudaSignalsToeplitz(),
    CudaSignalsFourier(),
    CudaBank(),
    CudaImplicit(),
    CudaImplicitWarpgroup(),
    CudaChannels(),
    CudaGated(),
    CudaWeightRows(),
    CudaInputRows(),
    CudaWeightChannels(),
    CudaInputChannels(),
    CudaBackwardRows(),
    CudaBackwardChannels(),
    CudaWeightProducts(),
    CudaInputProducts(),
    CudaStrategies(),
    CudaSplits(),
    CudaBlocks(),
)

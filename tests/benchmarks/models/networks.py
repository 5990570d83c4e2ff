"""The networks that are measured, and inputs for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tests.benchmarks.models.audio import AUDIO, audio_model, signal
from tests.benchmarks.models.causal import PREFIX, causal_model, tokens
from tuner.torch.model.flow.dataflow import record_dataflow

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SETTLED_ON = 8
"""The number of images from which batch norms take their running statistics."""
LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclass(frozen=True)
class Case:
    """A network with random weights, and the size of its input.

    ``network`` is a name of timm's, or ``transformers:NAME`` with a name of ``SHAPES`` or
    ``AUDIO``. ``length`` is the number of tokens, frames or samples of each input, and None for
    images.
    """

    network: str
    batch: int
    dtype: str
    device: str
    length: int | None = None

    @property
    def name(self) -> str:
        where = " on a CPU" if self.device == "cpu" else ""
        length = "" if self.length is None else f" L={self.length}"
        return f"{self.network.removeprefix(PREFIX)} {self.dtype} B={self.batch}{length}{where}"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a row that describe the case, without those that are None."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts in which PyTorch is timed. Models of tokens and signals choose their own,
        which has no name here."""
        return tuple(LAYOUTS) if self.length is None else ("",)

    def model(self) -> nn.Module:
        """Return the network in evaluation mode, with batch norms folded into the convolutions
        before them."""
        if self.length is not None:
            build = audio_model if self._transformer in AUDIO else causal_model
            return build(self._transformer, self.device, DTYPES[self.dtype])
        import timm

        torch.manual_seed(0)
        model: nn.Module = timm.create_model(self.network, pretrained=False)
        settle_(model, torch.randn(SETTLED_ON, *self._shape(model)))
        fold_(model, torch.zeros(1, *self._shape(model)))
        return model.to(self.device, DTYPES[self.dtype])

    def example(self, model: Any, layout: str) -> torch.Tensor:
        """Return a random input; images are in the layout."""
        if self._transformer in AUDIO and self.length is not None:
            x = signal(self._transformer, self.batch, self.length, self.device)
            return x.to(DTYPES[self.dtype])
        if self.length is not None:
            return tokens(self.batch, self.length, self.device)
        x = torch.randn(self.batch, *self._shape(model), device=self.device)
        return x.to(DTYPES[self.dtype]).contiguous(memory_format=LAYOUTS[layout])

    @property
    def _transformer(self) -> str:
        return self.network.removeprefix(PREFIX)

    @staticmethod
    def _shape(model: Any) -> tuple[int, ...]:
        return tuple(model.default_cfg["input_size"])


def settle_(model: nn.Module, x: torch.Tensor) -> None:
    """Give a new model weights, scales and running statistics with which its signals keep their
    magnitude, as training would, and put it in evaluation mode.

    A new ConvNeXt scales its layers by 1e-6, and other new networks scale the last norm of a block
    by zero. An error in a layer would then not show in the output.
    """
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    scales = [p for name, p in model.named_parameters() if name.rpartition(".")[2] == "gamma"]
    with torch.no_grad():
        for scale in (*scales, *(norm.weight for norm in norms if norm.affine)):
            scale.uniform_(0.5, 1.5)
        usual = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # all batches count alike
            norm.train()
        if norms:
            model(x)
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum
    model.eval()


def fold_(model: nn.Module, x: torch.Tensor) -> None:
    """Fold each batch norm into the convolution before it, as a user of PyTorch would.

    A norm is folded if only the norm takes the convolution's output. If a norm has an activation,
    the activation replaces the norm.
    """
    flow = record_dataflow(model, (x,), {}, lambda module: isinstance(module, nn.Conv2d))
    for convolution, calls in flow.calls.items():
        if len(calls) != 1 or not calls[0].behind:
            continue
        norm: Any = calls[0].behind[0]
        if not isinstance(norm, nn.modules.batchnorm._BatchNorm):
            continue
        _replace(model, norm, getattr(norm, "act", None) or nn.Identity())
        _replace(model, convolution, fuse_conv_bn_eval(convolution, norm))


def _replace(model: nn.Module, module: nn.Module, by: nn.Module) -> None:
    """Replace a module of a model by another everywhere in the model."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is module:
                setattr(parent, name, by)

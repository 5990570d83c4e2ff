"""The networks that are measured, and what they are called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tests.benchmarks.models.causal import PREFIX, causal_model, tokens
from tuner.torch.model.dataflow import record_dataflow

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SETTLED_ON = 8
"""Images from which batch norms take their running sums."""
LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclass(frozen=True)
class Case:
    """A network of timm's by its name, or one of transformers' by ``transformers:NAME``, with
    random weights, on ``batch`` inputs; of a language model, of ``length`` tokens each."""

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
        """Those that are given, of a row."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def layouts(self) -> tuple[str, ...]:
        """Those in which PyTorch is timed: a language model chooses its own."""
        return tuple(LAYOUTS) if self.length is None else ("",)

    def model(self) -> nn.Module:
        """In evaluation mode, its batch norms folded into the convolutions before them."""
        if self.length is not None:
            name = self.network.removeprefix(PREFIX)
            return causal_model(name, self.device, DTYPES[self.dtype])
        import timm

        torch.manual_seed(0)
        model: nn.Module = timm.create_model(self.network, pretrained=False)
        settle_(model, torch.randn(SETTLED_ON, *self._shape(model)))
        fold_(model, torch.zeros(1, *self._shape(model)))
        return model.to(self.device, DTYPES[self.dtype])

    def example(self, model: Any, layout: str) -> torch.Tensor:
        if self.length is not None:
            return tokens(self.batch, self.length, self.device)
        x = torch.randn(self.batch, *self._shape(model), device=self.device)
        return x.to(DTYPES[self.dtype]).contiguous(memory_format=LAYOUTS[layout])

    @staticmethod
    def _shape(model: Any) -> tuple[int, ...]:
        return tuple(model.default_cfg["input_size"])


def settle_(model: nn.Module, x: torch.Tensor) -> None:
    """Give a new model the weights, scales and running sums with which its signals keep their size,
    as training would, and put it in evaluation mode. As made, ConvNeXt scales its layers by 1e-6,
    and others the last norm of a block by zero: what a layer computes would not be seen in the
    output."""
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
            norm.momentum = None  # all that was seen counts alike
            norm.train()
        if norms:
            model(x)
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum
    model.eval()


def fold_(model: nn.Module, x: torch.Tensor) -> None:
    """Fold each batch norm that alone takes a convolution's output into it, as a user of PyTorch
    would before any measuring. A norm with an activation of its own leaves that in its place."""
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
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is module:
                setattr(parent, name, by)

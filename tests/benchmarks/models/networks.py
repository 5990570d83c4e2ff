"""The networks that are measured, and what they are called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tuner.torch.model.dataflow import watched

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclass(frozen=True)
class Case:
    """A network of timm's by its name, with random weights, on ``batch`` inputs."""

    network: str
    batch: int
    dtype: str
    device: str

    @property
    def name(self) -> str:
        where = " on a CPU" if self.device == "cpu" else ""
        return f"{self.network} {self.dtype} B={self.batch}{where}"

    def model(self) -> nn.Module:
        """In evaluation mode, its batch norms folded into the convolutions before them."""
        import timm

        torch.manual_seed(0)
        model: nn.Module = timm.create_model(self.network, pretrained=False).eval()
        fold_(model, torch.zeros(1, *self._shape(model)))
        return model.to(self.device, DTYPES[self.dtype])

    def example(self, model: Any, layout: str) -> torch.Tensor:
        x = torch.randn(self.batch, *self._shape(model), device=self.device)
        return x.to(DTYPES[self.dtype]).contiguous(memory_format=LAYOUTS[layout])

    @staticmethod
    def _shape(model: Any) -> tuple[int, ...]:
        return tuple(model.default_cfg["input_size"])


def fold_(model: nn.Module, x: torch.Tensor) -> None:
    """Fold each batch norm that alone takes a convolution's output into it, as a user of PyTorch
    would before any measuring. A norm with an activation of its own leaves that in its place."""
    flow = watched(model, (x,), {}, lambda module: isinstance(module, nn.Conv2d))
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

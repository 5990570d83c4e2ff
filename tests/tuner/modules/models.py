"""A small model with a depthwise layer that is tuned in the fixture ``source``, and its parts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class BatchNormAct2d(nn.BatchNorm2d):
    """A stand-in for timm's norm with an activation: a batch norm, then ReLU6."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), nn.ReLU6(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.act(self.drop(super().forward(x)))


class Conv2dSame(nn.Conv2d):
    """A stand-in for timm's convolution that pads each input size by TensorFlow's formula for
    SAME."""

    def forward(self, x: Any) -> Any:
        sides: list[int] = []
        for axis in (1, 0):
            size, step = x.shape[axis - 2], self.stride[axis]
            span = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
            zeros = max(0, span - step if size % step == 0 else span - size % step)
            sides += [zeros // 2, zeros - zeros // 2]
        padded = nn.functional.pad(x, sides)
        return nn.functional.conv2d(
            padded, self.weight, self.bias, self.stride, (0, 0), self.dilation, self.groups
        )


class Block(nn.Module):
    """A pointwise and a depthwise layer. ``call(block, y)`` gets the depthwise layer's output and
    returns the block's, mostly by the block's norm and activation. ``act`` is ReLU6 by default."""

    def __init__(self, call: Callable[["Block", Any], Any], act: Any = None) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Conv2d(6, 6, 1)
        self.conv = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.bn = nn.BatchNorm2d(6)
        self.act = act or nn.ReLU6(inplace=True)
        self.both = BatchNormAct2d(6)
        self.same = nn.Identity()
        self.call = call
        scramble(self)

    def forward(self, x: Any) -> Any:
        return self.call(self, self.conv(self.first(x)))


def scramble(model: Any) -> None:
    """Give batch norms random statistics and parameters, as if the model had been trained."""
    torch.manual_seed(3)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
                module.weight.uniform_(0.5, 2)
                module.bias.normal_()
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)


def outputs(model: Any, x: Any) -> Any:
    """Return the model's output without gradients."""
    with torch.no_grad():
        return model(x)


def train(model: Any, x: Any, rate: float, steps: int) -> None:
    """Take so many steps of gradient descent on the mean square of the model's output."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()


def close(a: Any, b: Any) -> bool:
    """Return whether two tensors are equal but for rounding in float32."""
    return bool(torch.allclose(a, b, atol=2e-5, rtol=2e-5))


def usual(block: Block, y: Any) -> Any:
    """Return what most blocks compute from their layer's output: norm, then activation."""
    return block.act(block.bn(y))

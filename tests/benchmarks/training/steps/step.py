"""A network that is trained, on random images that never change."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.benchmarks.models.networks import SETTLED_ON, settle_

BATCHES = 4
"""Of images and labels, which come in turns."""
RATE = 3e-4
DTYPE = torch.bfloat16
"""Of autocast."""


@dataclass(frozen=True)
class Case:
    """A network of timm's by its name, on ``batch`` square images of ``size``; None: of the size
    that timm names."""

    network: str
    batch: int
    size: int | None
    device: str

    @property
    def name(self) -> str:
        where = " on a CPU" if self.device == "cpu" else ""
        return f"{self.network} B={self.batch}{where}"


class Training:
    """A network with its optimiser. Channels last, weights in float32, under autocast. ``shape`` is
    the batch's; the output has a number for each of so many ``classes``."""

    def __init__(self, model: nn.Module, shape: tuple[int, ...], classes: int, device: str) -> None:
        last: Any = torch.channels_last
        settle_(model, torch.randn(SETTLED_ON, *shape[1:]))  # so that each layer counts at once
        self.model: nn.Module = model.to(device, memory_format=last).train()
        self._device = device
        self._first = deepcopy(self.model.state_dict())
        self._data = [
            (
                torch.randn(shape, device=device).to(memory_format=last),
                torch.randint(classes, shape[:1], device=device),
            )
            for _ in range(BATCHES)
        ]
        self._call: Any = self.model
        self.restart()

    @classmethod
    def of(cls, case: Case) -> Self:
        """The same for the same case."""
        import timm

        torch.manual_seed(0)
        model: Any = timm.create_model(case.network, pretrained=False)
        channels, *extent = model.default_cfg["input_size"]
        extent = extent if case.size is None else [case.size, case.size]
        return cls(model, (case.batch, channels, *extent), model.num_classes, case.device)

    @property
    def images(self) -> Tensor:
        return self._data[0][0]

    def compile(self) -> None:
        self._call = torch.compile(self.model, dynamic=False)

    def run_eager(self) -> None:
        self._call = self.model

    def autocast(self) -> Any:
        return torch.autocast(self._device, DTYPE)

    def restart(self) -> None:
        """From the first weights."""
        self.model.load_state_dict(self._first)
        self._optimiser = torch.optim.AdamW(self.model.parameters(), RATE, fused=True)
        self._steps = 0

    def step(self) -> Tensor:
        """The loss before the step, which may not have been computed yet."""
        images, labels = self._data[self._steps % BATCHES]
        self._steps += 1
        self._optimiser.zero_grad()
        with self.autocast():
            loss = cross_entropy(self._call(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return loss.detach()

    def curve(self, steps: int) -> list[float]:
        """The losses of so many steps, from the first weights."""
        self.restart()
        losses: list[float] = torch.stack([self.step() for _ in range(steps)]).tolist()
        return losses

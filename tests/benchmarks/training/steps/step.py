"""A network in training on a few batches of random images, and one step of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.benchmarks.models.networks import SETTLED_ON, settle_

BATCHES = 4
"""The number of batches of images and labels, which take turns."""
RATE = 3e-4
BEFORE_CAPTURE = 3
DTYPE = torch.bfloat16
"""The dtype of autocast."""


@dataclass(frozen=True)
class Case:
    """A network of timm by name, on ``batch`` square images of ``size`` pixels a side. If ``size``
    is None, images have timm's own size."""

    network: str
    batch: int
    size: int | None
    device: str

    @property
    def name(self) -> str:
        where = " on a CPU" if self.device == "cpu" else ""
        return f"{self.network} B={self.batch}{where}"


class Training:
    """A network with its optimiser, with weights in float32, under autocast, channels last or not.

    ``shape`` is a batch's (images, channels, height, width). The output has shape (images,
    ``classes``).
    """

    def __init__(
        self,
        model: nn.Module,
        shape: tuple[int, ...],
        classes: int,
        device: str,
        channels_last: bool = True,
    ) -> None:
        self._lies: Any = torch.channels_last if channels_last else torch.contiguous_format
        # so that every layer affects the output from the first step on
        settle_(model, torch.randn(SETTLED_ON, *shape[1:]))
        self.model: nn.Module = model.to(device, memory_format=self._lies).train()
        self._device = device
        self._first = deepcopy(self.model.state_dict())
        self._data = [
            (
                torch.randn(shape, device=device).to(memory_format=self._lies),
                torch.randint(classes, shape[:1], device=device),
            )
            for _ in range(BATCHES)
        ]
        self._compiled: Any = None
        self.restart()

    @classmethod
    def of(cls, case: Case, seed: int = 0, channels_last: bool = True) -> Self:
        """Return a training of a case. The same case and seed give the same weights, images and
        labels."""
        import timm

        torch.manual_seed(seed)
        model: Any = timm.create_model(case.network, pretrained=False)
        channels, *extent = model.default_cfg["input_size"]
        extent = extent if case.size is None else [case.size, case.size]
        shape = case.batch, channels, *extent
        return cls(model, shape, model.num_classes, case.device, channels_last)

    @property
    def images(self) -> Tensor:
        return self._data[0][0]

    def compile(self, mode: str = "default") -> None:
        """Compile the network in a mode of ``torch.compile``. Steps that are not eager use it."""
        self._compiled = torch.compile(self.model, dynamic=False, mode=mode)

    def autocast(self) -> Any:
        return torch.autocast(self._device, DTYPE)

    def begin_from(self, other: Training) -> None:
        """Take another training's first weights, images and labels, in this one's layout, and
        restart."""
        self._first = other._first
        self._data = [(images.to(memory_format=self._lies), y) for images, y in other._data]
        self.restart()

    def restart(self) -> None:
        """Go back to the first weights, with a new optimiser."""
        self.model.load_state_dict(self._first)
        self._optimiser = torch.optim.AdamW(self.model.parameters(), RATE, fused=True)
        self._steps = 0

    def step(self, eager: bool = False) -> Tensor:
        """Do a step and return the loss before the step. A GPU may not have computed that loss
        yet."""
        call = self.model if eager or self._compiled is None else self._compiled
        images, labels = self._data[self._steps % BATCHES]
        self._steps += 1
        self._optimiser.zero_grad()
        with self.autocast():
            loss = cross_entropy(call(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return loss.detach()

    def captured(self) -> Callable[[], None]:
        """Restart, warm up and capture a whole step on one of the batches as a CUDA graph.

        Return the function that replays it.
        """
        self.restart()
        for group in self._optimiser.param_groups:
            group["capturable"] = True
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(BEFORE_CAPTURE):
                self.step()
        torch.cuda.current_stream().wait_stream(beside)
        self._optimiser.zero_grad()  # so that gradients are in the graph's own memory
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    def curve(self, steps: int, eager: bool = False) -> list[float]:
        """Return the losses of ``steps`` steps from the first weights."""
        self.restart()
        losses: list[float] = torch.stack([self.step(eager) for _ in range(steps)]).tolist()
        return losses

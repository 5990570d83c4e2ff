"""``capture``: list the workloads that one call of a model needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from templates.workload import Workload
from tuner.errors import WrongArgument
from tuner.torch import arguments
from tuner.torch.lookup.source_lookup import workload_of
from tuner.torch.lookup.workload_lookup import Purpose
from tuner.torch.model.flow.dataflow import run
from tuner.torch.model.flow.functions import layers_of
from tuner.torch.model.survey import FUSE, Mode, ModelLayer, Terms, survey
from tuner.torch.model.trial_calls import exclude_harmful_layers
from tuner.torch.tuned_module import Tuned


@dataclass
class Captured:
    """A workload of a model.

    ``calls`` counts its calls in one call of the model, and ``names`` are the modules that make
    them. If ``workload`` is None, ``reason`` says why these modules have none.
    """

    operator: str
    workload: Workload | None
    calls: int
    names: list[str]
    reason: str = ""

    @property
    def order(self) -> dict[str, Any]:
        """A layer of an order, as ``Client.submit_model`` takes it.

        Raises WrongArgument if there is no workload.
        """
        if self.workload is None:
            raise WrongArgument(f"{self.names[0]} can't be tuned: {self.reason}")
        workload = self.workload.model_dump(exclude_none=True)
        return {"operator": self.operator, "workload": workload, "calls": self.calls}


def capture(
    model: nn.Module,
    *example_inputs: Any,
    fuse: Collection[str] = FUSE,
    max_error: float | None = None,
    mode: Mode = "inference",
    **named_inputs: Any,
) -> list[Captured]:
    """Return the workloads that :func:`tuner.torch.optimize_` would look up for the model.

    The model is called several times, in evaluation mode, on ``example_inputs`` and
    ``named_inputs``. For ``mode`` "training" the list includes the gradients that inputs and
    parameters need. Equal workloads are listed once. A model on the meta device is captured without
    computing anything, but PyTorch does not keep channels last there.

    Raises WrongArgument, also if the model is optimised already, and whatever its call raises.
    """
    arguments.model(model)
    replaced = any(isinstance(each, Tuned) and each.in_place_of for each in model.modules())
    if replaced or any(layers_of(model)):
        raise WrongArgument("the model is optimised already; call restore_ on it, and then capture")
    terms = Terms(source=None, fuse=fuse, max_error=max_error, mode=mode)
    layers, _ = survey(model, example_inputs, named_inputs, terms)
    again = partial(run, model, example_inputs, named_inputs)
    exclude_harmful_layers(model, layers, again, before=None)
    found: dict[Any, Captured] = {}
    for layer in layers:
        for call, calls in layer.shapes:
            for purpose in layer.purposes(call, mode):
                each = _captured(layer, call.input, calls, purpose)
                known = found.setdefault((each.operator, each.workload or each.reason), each)
                if known is not each:
                    known.calls += each.calls
                    known.names += each.names
    return list(found.values())


def _captured(layer: ModelLayer, x: Any, calls: int, purpose: Purpose) -> Captured:
    workload = workload_for(layer, x, purpose)
    if isinstance(workload, str):
        return Captured(layer.operator, None, calls, list(layer.names), workload)
    return Captured(layer.operator, workload, calls, list(layer.names))


def workload_for(layer: ModelLayer, x: Any, purpose: Purpose) -> Workload | str:
    """Return the workload for that purpose of a layer's call on ``x``, or why there is none."""
    if layer.tuned is None:
        return layer.reason
    wanted = layer.tuned.wanted(x, purpose=purpose)
    return wanted if isinstance(wanted, str) else workload_of(layer.operator, wanted[0])

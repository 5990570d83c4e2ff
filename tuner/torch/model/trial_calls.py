"""Trial calls that find layers whose replacement changes what the model computes.

A model may use a layer's output unseen by the watch of :mod:`~tuner.torch.model.flow.dataflow`: in
another thread, in C++ or in a module's own forward. Or it may ask for a layer's class. Then its
output changes as soon as tuned layers stand in it, even if PyTorch computes these layers, without
the rounding of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from math import isnan
from typing import Any

import torch
from torch import nn

from templates.dtypes import USUAL_ERROR
from tuner.torch.lookup.workload_lookup import DTYPES
from tuner.torch.model.flow.dataflow import ConvolutionCall
from tuner.torch.model.flow.functions import FunctionCall
from tuner.torch.model.kernel_check import compare_gates, compare_kernels
from tuner.torch.model.outputs import difference
from tuner.torch.model.report import in_a_line
from tuner.torch.model.survey import ModelLayer
from tuner.torch.model.swap import swaps_of


def exclude_harmful_layers(
    model: nn.Module,
    layers: list[ModelLayer],
    call: Callable[[], Any],
    before: list[torch.Tensor] | None,
    untuned: Collection[nn.Module | FunctionCall] = (),
) -> None:
    """Find the layers that change the model's output from ``before``, or make its call fail.

    These layers take nothing in. If that does not help, they are left to PyTorch. If ``before`` is
    None, only layers that make the call fail are found.

    Afterwards the inputs noted for the other layers have the layouts that they get behind tuned
    layers. On a CPU PyTorch's conv1d does not keep channels last, and a tuned one does. The
    convolutions in ``untuned`` hand their outputs on as PyTorch does.
    """
    trial = _Trial(model, call, before, layers, partial(_by_pytorch, untuned))
    while blamed := trial.blamed([layer for layer in layers if layer.tuned is not None]):
        taking = [(layer, why) for layer, why in blamed if _is_fused(layer)]
        for layer, why in taking:
            _unfuse(layer, why)
        for layer, why in [] if taking else blamed:
            layer.tuned, layer.reason = None, _why_left(why)


def unusable_kernels(
    model: nn.Module, layers: list[ModelLayer], call: Callable[[], Any]
) -> list[tuple[ModelLayer, str]]:
    """Return the layers whose kernels must not be used, and why.

    These are the layers that make the call fail. If there are none, these are the layers whose
    kernels compute something else than PyTorch.
    """
    wrong: dict[int, str] = {}
    found = _Trial(model, call, None, layers, partial(compare_kernels, wrong)).blamed(layers)
    compare_gates(wrong, layers)
    failing = [(layer, _why_left(why)) for layer, why in found]
    return failing or [(layer, wrong[id(layer)]) for layer in layers if id(layer) in wrong]


def _why_left(why: str) -> str:
    return (
        f"with a tuned layer {why}: the model may check its layers' classes, or rely on the "
        "memory layout of their outputs"
    )


def _is_fused(layer: ModelLayer) -> bool:
    tuned: Any = layer.tuned
    return bool(layer.fused or tuned.whole)


def _unfuse(layer: ModelLayer, why: str) -> None:
    inside = [type(module).__name__ for module in layer.fused] or ["the end that is cut off"]
    stay, them = ("stays", "it") if len(inside) == 1 else ("stay", "them")
    without = f"with {them} in the layer's kernel" if layer.fused else "without it"
    layer.calls[0].apart = (
        f"{' and '.join(inside)} {stay}, because {without} {why}: something that "
        "optimize_ can't see uses the layer's output too"
    )
    layer.fused = []
    tuned: Any = layer.tuned
    tuned.stand_alone()


class _Trial:
    """Calls of a model with some of its layers tuned.

    Each is made in the context that ``within`` returns for these layers. Its output is compared
    with ``before``, unless that is None.
    """

    def __init__(
        self,
        model: nn.Module,
        call: Callable[[], Any],
        before: list[torch.Tensor] | None,
        layers: list[ModelLayer],
        within: Callable[[list[ModelLayer]], AbstractContextManager[None]],
    ) -> None:
        self._model, self._call, self._before, self._within = model, call, before, within
        dtypes = {DTYPES.get(each.input.dtype, "float32") for of in layers for each in of.calls}
        self._rounding = max((USUAL_ERROR[dtype] for dtype in dtypes), default=0.0)

    def blamed(self, layers: list[ModelLayer]) -> list[tuple[ModelLayer, str]]:
        """Return the layers with which the output changes or the call fails, and why.

        They are found by halving. If neither half does so alone, all layers of both are blamed.
        """
        why = self._failure(layers) if layers else ""
        if not why:
            return []
        middle = len(layers) // 2
        halves = (layers[:middle], layers[middle:]) if middle else ()
        found = [each for half in halves for each in self.blamed(half)]
        return found or [(layer, why) for layer in layers]

    def _failure(self, layers: list[ModelLayer]) -> str:
        """Return what is wrong with the call if these layers are tuned, or an empty string."""
        swaps = swaps_of(self._model, layers)
        with self._within(layers):
            try:
                for swap in swaps:
                    swap.apply()
                after = self._call()
            except Exception as error:
                failure = f"the example's call fails ({in_a_line(error)})"
            else:
                failure = ""
            finally:
                for swap in swaps:
                    swap.undo()
        if failure:
            self._own_variation  # noqa: B018  # raises if the model's own layers fail, too
            return failure
        return "" if self._before is None else self._differs(after)

    def _differs(self, after: Any) -> str:
        apart = difference(self._before, after)
        if apart is not None and apart <= self._rounding:
            return ""
        if apart is None:
            return "" if self._own_variation is None else "the example's output has another shape"
        most = self._rounding + 4 * (self._own_variation or 0.0)
        if apart <= most or isnan(most):
            return ""
        return f"the example's output changes by {apart:.1e} of its largest value"

    @cached_property
    def _own_variation(self) -> float | None:
        """How much the output with the model's own layers differs from call to call."""
        return difference(self._before, self._call())


@contextmanager
def _by_pytorch(
    untuned: Collection[nn.Module | FunctionCall], layers: list[ModelLayer]
) -> Iterator[None]:
    """Have tuned layers compute by PyTorch, without the rounding of kernels, and note how their
    inputs lie in memory."""
    own = [vars(layer.tuned) for layer in layers]
    for layer, its in zip(layers, own, strict=True):
        its["computed"] = partial(
            _in_tuned_layout, layer, iter(layer.calls), layer.convolution in untuned
        )
    try:
        yield
    finally:
        for its in own:
            del its["computed"]


def _in_tuned_layout(
    layer: ModelLayer, calls: Iterator[ConvolutionCall], is_untuned: bool, x: Any, *given: Any
) -> Any:
    tuned: Any = layer.tuned
    plain = tuned.plain(x, *given)
    y = plain if is_untuned else tuned.in_layout_of(plain, x)
    noted = next(calls, None)  # a checkpoint calls a layer once more, in the backward pass
    if noted is not None:
        noted.input = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        noted.changes_layout = y.stride() != plain.stride()
    return y

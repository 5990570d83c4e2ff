"""``optimize_``: replace the layers of a model by tuned kernels, in place, by one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import inf
from typing import Any, get_args

import torch
from torch import nn

from tuner.client.source import UNREACHABLE_ERRORS, Source
from tuner.errors import WrongArgument
from tuner.torch import arguments
from tuner.torch.lookup.source_lookup import KINDS
from tuner.torch.lookup.workload_lookup import Purpose
from tuner.torch.model import missing as untuned
from tuner.torch.model.capture import workload_for
from tuner.torch.model.flow.dataflow import ConvolutionCall, run
from tuner.torch.model.flow.functions import FunctionCall
from tuner.torch.model.missing import OnMissing, Wanted
from tuner.torch.model.outputs import difference
from tuner.torch.model.report import Report, Row
from tuner.torch.model.survey import (
    FUSE,
    Filter,
    Mode,
    ModelLayer,
    Terms,
    pair_gates,
    survey,
    uncalled,
)
from tuner.torch.model.swap import restore_, swaps_of
from tuner.torch.model.timing import in_turns, step
from tuner.torch.model.trial_calls import exclude_harmful_layers, unusable_kernels


def optimize_(
    model: nn.Module,
    example_inputs: Any = None,
    *,
    source: Source,
    filter_fn: Filter | None = None,
    fuse: Collection[str] = FUSE,
    max_error: float | None = None,
    on_missing: OnMissing = "fallback",
    budget_seconds: float | None = None,
    mode: Mode = "inference",
) -> Report:
    """Replace a model's convolutions by tuned kernels, in place, and return a report by layer.

    A conv1d or depthwise conv2d is replaced if ``source`` has a kernel for it that is faster than
    PyTorch. If a module calls ``torch.nn.functional.conv1d`` or ``conv2d`` itself, tuned kernels
    compute those calls as well. If the model is called under autocast, call this under autocast
    too, because a kernel is for one dtype.

    Keys of the ``state_dict``, parameters and the modes of modules stay as they are.
    :func:`restore_` undoes the replacement; a model that is optimised already is restored first.

    ``example_inputs`` are what the model is called with: a tensor, a tuple of arguments, or a
    mapping of their names. The model is called on them several times, in evaluation mode. If in
    these calls only a batch norm or an activation takes a convolution's output, that module becomes
    part of the kernel. The model must use it in the same way in all other calls. Without an example
    nothing becomes part of a kernel, and each layer looks its shapes up when it is called.

    ``filter_fn(module, name)`` is called for each module of the model. It returns whether a
    convolution may be replaced, or whether kernels may compute the functions that another module
    calls. ``fuse`` lists what kernels may take in: "bn", "bias", "act", "cut", which leaves one
    output for each sample, and "gate". ``max_error`` is the accuracy that the workloads ask for, by
    default the usual accuracy of their dtype.

    ``on_missing`` says what is done about workloads that are not tuned: PyTorch computes them
    ("fallback"); a worker verifies the configuration of the closest tuned shape ("nearest"), or one
    that is predicted to be fast ("predicted"); they are tuned ("tune"); or NotTuned is raised
    before anything is replaced ("raise"). For "tune", ``budget_seconds`` is the time that all
    searches may take together; the last round of each job comes on top. If PyTorch stays faster for
    a layer, and hands on another layout than a tuned layer would, the layers behind it get the same
    time once more.

    For ``mode`` "training" the gradients of inputs, weights and biases are looked up too. Batch
    norms then stay as they are, and only an activation may become part of a kernel. In a model that
    was optimised for "inference", PyTorch computes a layer that has a batch norm in its kernel
    while gradients are needed or the norm is in training mode.

    If the example's output changes by more than rounding, the layer concerned takes nothing in. If
    that does not help, it stays PyTorch's. A layer also stays PyTorch's if its kernel's output is
    not PyTorch's. The report says so.

    Raises WrongArgument, which names the argument, and whatever the model's call raises.
    """
    terms = Terms(source, fuse, filter_fn, max_error, mode)
    _check(model, source, on_missing, budget_seconds, example_inputs)
    restore_(model)
    if example_inputs is None:
        return _at_first_call(model, terms)
    given, named = _inputs(example_inputs)
    layers, before = survey(model, given, named, terms)
    call = partial(step if mode == "training" else run, model, given, named)
    if mode == "training":
        before = call()
    served = _Served(source, mode)
    untuned: set[nn.Module | FunctionCall] = set()
    while True:
        exclude_harmful_layers(model, layers, call, before, untuned)
        served.fill(type(model).__name__, layers, on_missing, budget_seconds)
        rows = [row for layer in layers for row in served.rows(layer)]
        found = _in_other_layout(layers, rows)
        if found <= untuned:
            break
        untuned |= found
    report = Report(rows, training=model.training, mode=mode)
    right = _right(model, rows, call)
    pair_gates(right)
    swaps = swaps_of(model, right)
    if not swaps:
        return report
    report.variation = difference(before, call())
    try:
        for swap in swaps:
            swap.apply()
        report.error = difference(before, call())
        report.before_ms, report.after_ms = in_turns(call, swaps)
    except BaseException:
        restore_(model)
        raise
    return report


def _in_other_layout(layers: list[ModelLayer], rows: list[Row]) -> set[nn.Module | FunctionCall]:
    """Return the convolutions that PyTorch computes in another memory layout than tuned layers."""
    tuned = {id(row.layer) for row in rows if row.by == "tuned"}
    return {
        layer.convolution
        for layer in layers
        if id(layer) not in tuned and any(call.changes_layout for call in layer.calls)
    }


def _right(model: nn.Module, rows: list[Row], call: Callable[[], Any]) -> list[ModelLayer]:
    """Return the tuned layers whose kernels compute what PyTorch does; leave the others to
    PyTorch."""
    found = {id(row.layer): row.layer for row in rows if row.by == "tuned" and row.layer}
    while left := unusable_kernels(model, list(found.values()), call):
        for layer, why in left:
            del found[id(layer)]
            for row in rows:
                if row.layer is layer:
                    row.leave(why)
    return list(found.values())


def _check(
    model: Any, source: Any, on_missing: str, budget_seconds: float | None, example: Any
) -> None:
    arguments.model(model)
    arguments.source(source)
    known = get_args(OnMissing)
    if on_missing not in known:
        raise WrongArgument(
            f"on_missing is {on_missing!r}, and must be one of {', '.join(map(repr, known))}"
        )
    is_number = isinstance(budget_seconds, int | float)
    if budget_seconds is not None and (
        on_missing != "tune" or not is_number or not 0 < budget_seconds < inf
    ):
        raise WrongArgument(
            f"budget_seconds is {budget_seconds!r}: it must be positive and finite, and is for "
            "on_missing='tune'"
        )
    if example is None and on_missing != "fallback":
        raise WrongArgument(
            f"on_missing is {on_missing!r}, which needs example_inputs, because only a call shows "
            "the shapes"
        )


def _inputs(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, Mapping):
        for name in example:
            if not isinstance(name, str):
                raise WrongArgument(
                    f"example_inputs has the key {name!r}, but its keys must be names of the "
                    "model's arguments"
                )
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    raise WrongArgument(
        f"example_inputs is a {type(example).__name__}, and must be a tensor, a tuple of the "
        "model's arguments, or a mapping of their names to them"
    )


def _at_first_call(model: nn.Module, terms: Terms) -> Report:
    layers = uncalled(model, terms)
    replaced = [layer for layer in layers if layer.tuned is not None]
    for layer, swap in zip(replaced, swaps_of(model, replaced), strict=True):
        swap.apply()
        layer.reason = "its shapes are looked up when it is called"
    return Report([Row.of(layer) for layer in layers], training=model.training, mode=terms.mode)


class _Served:
    """The answers of a source for the layers of a model.

    Once the source can't be reached, it is not asked again: each attempt would take as long as the
    first.
    """

    def __init__(self, source: Source, mode: Mode) -> None:
        self._source, self._mode = source, mode
        self._failed: dict[str, str] = {}
        self._away = ""

    def fill(
        self,
        name: str,
        layers: list[ModelLayer],
        on_missing: OnMissing,
        budget_seconds: float | None,
    ) -> None:
        """Do what ``on_missing`` says about workloads that are not tuned.

        ``name`` is that of an order to tune them. If ``on_missing`` is "raise", raises NotTuned if
        a workload is not tuned, or what the source raises if it can't be reached.
        """
        if on_missing == "fallback":
            return
        wanted = Counter[Wanted]()
        # "raise" accepts separately tuned gradients; an order asks for all of a layer's at once
        as_served = on_missing == "raise"
        # "raise" skips layers with gates, because the layers without gates serve
        for layer in (each for each in layers if not (as_served and each.is_gated)):
            for call, calls in layer.shapes:
                if call.device.type not in KINDS:
                    continue
                purposes = (
                    self._served(layer, call) if as_served else layer.purposes(call, self._mode)
                )
                for purpose in purposes:
                    workload = workload_for(layer, call.input, purpose)
                    if not isinstance(workload, str):
                        wanted[workload, call.device] += calls
        try:
            missing = untuned.untuned(self._source, wanted, to_tune=on_missing == "tune")
        except UNREACHABLE_ERRORS as error:
            if on_missing == "raise":
                raise
            self._away = str(error)
            return
        if on_missing == "raise":
            untuned.refuse(missing)
        if on_missing == "nearest":
            self._failed = untuned.verify_nearest(self._source, list(missing))
        elif on_missing == "predicted":
            self._failed = untuned.predict(self._source, list(missing))
        else:
            ordered = {each: wanted[each] for each in missing}
            self._failed = untuned.tune(self._source, name, ordered, budget_seconds)

    def rows(self, layer: ModelLayer) -> list[Row]:
        """Return a row for each shape of the layer and each purpose that is computed for it."""
        return [
            self._row(layer, call, calls, purpose)
            for call, calls in layer.shapes
            for purpose in self._served(layer, call)
        ]

    def _served(self, layer: ModelLayer, call: ConvolutionCall) -> list[Purpose]:
        """Return the purposes for which kernels are called in a call and its backward pass.

        The gradients are separate if they are tuned separately and not as one workload.
        """
        purposes = layer.purposes(call, self._mode)
        if "backward" not in purposes or layer.tuned is None or self._away:
            return purposes
        several: tuple[Purpose, ...] = ("backward", "backward_input", "backward_weight")
        for purpose in several:
            found = layer.tuned.found_for(call.input, call.device, purpose=purpose)
            if found.is_away:
                self._away = found.reason
                break
            if found.library is not None:
                apart = purpose != "backward"
                return layer.purposes(call, self._mode, apart=apart)
        return purposes

    def _row(self, layer: ModelLayer, call: ConvolutionCall, calls: int, purpose: Purpose) -> Row:
        workload = workload_for(layer, call.input, purpose)
        if layer.tuned is None or isinstance(workload, str):
            return Row.of(layer, str(workload), calls)
        if self._away:
            reason = f"it was not looked up, because {self._away}"
            return Row.of(layer, reason, calls, workload)
        found = layer.tuned.found_for(call.input, call.device, purpose=purpose)
        self._away = found.reason if found.is_away else ""
        reason = self._failed.get(workload.key, found.reason)
        return Row.of(layer, reason, calls, workload, found)

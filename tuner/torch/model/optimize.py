"""A model made faster, in place, by one call."""

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
from tuner.torch.looks_up import Purpose
from tuner.torch.model import missing as untuned
from tuner.torch.model.capture import workload_for
from tuner.torch.model.dataflow import Called, run
from tuner.torch.model.missing import OnMissing, Wanted
from tuner.torch.model.outputs import difference
from tuner.torch.model.report import Report, Row
from tuner.torch.model.survey import FUSE, Filter, Layer, Mode, Terms, survey, uncalled
from tuner.torch.model.swap import restore_, swaps_of
from tuner.torch.model.timing import in_turns, step
from tuner.torch.model.unseen import refused, settle


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
    """Replace the model's convolutions by tuned kernels where ``source``, a Client or a Local
    database, has some that are faster, and report it by layer. A convolution that a module calls as
    a function is computed by a tuned kernel in calls of that module.

    ``mode`` says what for. For "training" the gradients of inputs, weights and biases are looked up
    too, each by itself; batch norms stay as they are, and of what follows a convolution only an
    activation becomes part of its kernels. If the model is called under autocast, call this under
    it too: kernels are those of its dtype.

    ``example_inputs`` are what the model is called with, a tensor, a tuple, or a mapping of names:
    it is called on them in evaluation mode, before and after. What follows a convolution in that
    call and takes all of its output, a batch norm and an activation, becomes part of its kernel if
    ``fuse`` has "bn" and "act"; the model must use them alike in other calls. Without an example
    nothing is taken in, and each layer looks its shapes up when it is called.

    ``filter_fn(module, name)`` says which layers may be replaced; ``max_error`` is the accuracy
    that is asked for. ``on_missing`` says what is done about workloads that are not tuned: leave
    them to PyTorch ("fallback"), have a worker verify the "nearest" tuned shape's configuration, or
    one that is "predicted" to be fast, "tune" them, or "raise" NotTuned before anything is
    replaced. ``budget_seconds`` is for all searches together; each job's last round comes on top.

    Keys of the ``state_dict`` stay, and so do parameters and the modes of modules; :func:`restore_`
    undoes it. A model that is optimised already is restored first. If the example's output is
    another one with what a layer takes in, or with a tuned layer at all, the model keeps that, and
    so it does if a kernel's output is not PyTorch's; the report says so. A layer with a batch norm
    in it computes by PyTorch while gradients are needed, or the norm is in training mode. Raises
    WrongArgument for an argument that can't be, and what the model's call raises.
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
    settle(model, layers, call, before)
    served = _Served(source, mode)
    served.fill(type(model).__name__, layers, on_missing, budget_seconds)
    rows = [row for layer in layers for row in served.rows(layer)]
    report = Report(rows, training=model.training, mode=mode)
    swaps = swaps_of(model, _right(model, rows, call))
    if not swaps:
        return report
    try:
        for swap in swaps:
            swap.apply()
        report.error = difference(before, call())
        report.before_ms, report.after_ms = in_turns(call, swaps)
    except BaseException:
        restore_(model)
        raise
    return report


def _right(model: nn.Module, rows: list[Row], call: Callable[[], Any]) -> list[Layer]:
    """The tuned layers whose kernels give what PyTorch does. The others' rows are left to it."""
    found = {id(row.layer): row.layer for row in rows if row.by == "tuned" and row.layer}
    while left := refused(model, list(found.values()), call):
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
            f"on_missing is {on_missing!r}, which needs example_inputs: shapes are known of a call"
        )


def _inputs(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, Mapping):
        for name in example:
            if not isinstance(name, str):
                raise WrongArgument(
                    f"example_inputs has {name!r}, and must have names of what the model is "
                    "called with"
                )
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    raise WrongArgument(
        f"example_inputs is a {type(example).__name__}, and must be a tensor, a tuple of what the "
        "model is called with, or a mapping of names to it"
    )


def _at_first_call(model: nn.Module, terms: Terms) -> Report:
    layers = uncalled(model, terms)
    replaced = [layer for layer in layers if layer.tuned is not None]
    for layer, swap in zip(replaced, swaps_of(model, replaced), strict=True):
        swap.apply()
        layer.reason = "its shapes are looked up when it is called"
    return Report([Row.of(layer) for layer in layers], training=model.training, mode=terms.mode)


class _Served:
    """What a source has for layers. Once it gives no answer, it is not asked again: each time would
    take as long as the first."""

    def __init__(self, source: Source, mode: Mode) -> None:
        self._source, self._mode = source, mode
        self._failed: dict[str, str] = {}
        self._away = ""

    def fill(
        self, name: str, layers: list[Layer], on_missing: OnMissing, budget_seconds: float | None
    ) -> None:
        """Do what is to be done about workloads that are not tuned; an order has that name."""
        if on_missing == "fallback":
            return
        wanted = Counter[Wanted]()
        as_served = on_missing == "raise"  # while gradients at once are worth being tuned
        for layer in layers:
            for call, calls in layer.shapes:
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

    def rows(self, layer: Layer) -> list[Row]:
        """One for each shape of the layer, and what is computed for it."""
        return [
            self._row(layer, call, calls, purpose)
            for call, calls in layer.shapes
            for purpose in self._served(layer, call)
        ]

    def _served(self, layer: Layer, call: Called) -> list[Purpose]:
        """What is computed for a call: gradients apart, if these are tuned and those at once are
        not."""
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

    def _row(self, layer: Layer, call: Called, calls: int, purpose: Purpose) -> Row:
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

"""Translation of a workload into the PyTorch call that computes it, in the form of a package's
table of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import templates
from templates.workload import Workload

Fields = dict[str, Any]

_SAME = ("dtype", "bias", "residual", "activation")
"""Fields that a workload and a call have in common."""
_LAST = ("NWC", "NHWC")
"""Layouts in which the channels come last."""


def call_of(workload: Workload) -> Fields | None:
    """Return the fields of the package's ``Call`` for a workload, as JSON stores them.

    Return None if no function of the package makes this call: there is none for the operator, or
    the call, translated back, is a different workload (a gradient, for example)."""
    if workload.operator not in _FORMS:
        return None
    to_call, to_workload = _FORMS[workload.operator]
    told = workload.model_dump()
    call = to_call(workload) | {name: told[name] for name in _SAME}
    call["channels_last"] = told["layout"] in _LAST
    fields = to_workload(call) | {name: told[name] for name in (*_SAME, "max_error")}
    again = templates.operator(workload.operator).workload.model_validate(fields)
    return call if _form(again) == _form(workload) else None


def _conv1d(work: Any) -> Fields:
    groups = 1 if work.is_dense else work.C
    return {
        "input": [work.B, work.C, work.M],
        "weight": [work.out_channels, work.C // groups, work.N],
        "stride": [work.stride],
        "padding": list(work.pads),
        "dilation": [work.dilation],
        "groups": groups,
        "flipped": work.kind == "convolve",
    }


def _conv1d_workload(call: Fields) -> Fields:
    (B, C, M), (F, _, N) = call["input"], call["weight"]
    return {"B": B, "C": C, "M": M, "F": F, "N": N} | {
        "groups": call["groups"],
        "stride": call["stride"][0],
        "padding": call["padding"],
        "dilation": call["dilation"][0],
        "kind": "convolve" if call["flipped"] else "correlate",
        "layout": "NWC" if call["channels_last"] else "NCW",
    }


def _depthwise_conv2d(work: Any) -> Fields:
    return {
        "input": [work.B, work.C, work.H, work.W],
        "weight": [work.out_channels, 1, *work.kernel],
        "stride": [work.stride] * 2,
        "padding": list(work.pads),
        "dilation": [work.dilation] * 2,
        "groups": work.C,
        "flipped": False,
    }


def _depthwise_conv2d_workload(call: Fields) -> Fields:
    (B, C, H, W), (filters, _, KH, KW) = call["input"], call["weight"]
    return {"B": B, "C": C, "H": H, "W": W, "KH": KH, "KW": KW} | {
        "stride": call["stride"][0],
        "padding": call["padding"],
        "dilation": call["dilation"][0],
        "multiplier": filters // C,
        "layout": "NHWC" if call["channels_last"] else "NCHW",
    }


_FORMS: dict[str, tuple[Callable[[Any], Fields], Callable[[Fields], Fields]]] = {
    "conv1d": (_conv1d, _conv1d_workload),
    "depthwise_conv2d": (_depthwise_conv2d, _depthwise_conv2d_workload),
}
"""For each operator, the functions from a workload to a call and from a call to a workload. Both
leave out the fields ``_SAME``."""


def _form(workload: Any) -> Fields:
    """Return the workload's fields with its padding as numbers, because several modes can mean the
    same padding."""
    told = {**workload.model_dump(), "pads": workload.pads}
    return {name: value for name, value in told.items() if name not in ("mode", "padding")}

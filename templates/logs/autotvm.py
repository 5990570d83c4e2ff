"""Shapes from AutoTVM's logs, as TVM wrote them until 0.18 and as TopHub keeps them.

A task's arguments are those of TOPI's function: tensors as ``["TENSOR", shape, dtype]``, then
strides, padding, dilation, and at the end layouts and the output's dtype.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from templates import operators
from templates.logs.log import Log, NotExpressible, Shape, Target, log_of_shapes
from templates.logs.shapes import Window, conv1d, depthwise_conv2d, workload_of
from templates.records.record import MAX_LINE_BYTES
from templates.spaces.knob import quoted

NAME = "AutoTVM's log"
TAKES = "shapes of depthwise_conv2d_nchw, conv1d_ncw and this project's own tasks"
_DEPTHWISE = (
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nchw_spatial_pack",
    "depthwise_conv2d_nchwc",  # the form for Adreno's textures; its arguments are NCHW
    "depthwise_conv2d_NCHWc",
)
_CONV1D = ("conv1d_ncw",)
_LAYOUTS = ("NCHW", "NCW")
_TARGETS: dict[str, Target] = {"cuda": "cuda", "llvm": "cpu"}
"""Kinds of target by TVM's names. Shapes of other targets may be tuned on any device."""


def read(content: bytes) -> Log:
    """Read the log's shapes.

    Raise InvalidRecords if no shape can be imported. Its message says which shapes can be.
    """
    return log_of_shapes(NAME, TAKES, _records(content))


def _records(content: bytes) -> Iterator[tuple[int, Shape | NotExpressible]]:
    for number, line in enumerate(BytesIO(content), 1):
        text = line.strip()
        if not text or text.startswith(b"#"):  # TopHub's files begin with comments
            continue
        try:
            if len(text) > MAX_LINE_BYTES:
                raise NotExpressible(f"has more than {MAX_LINE_BYTES} bytes")
            yield number, _shape(text)
        except NotExpressible as reason:
            yield number, reason


def _shape(line: bytes) -> Shape:
    try:
        record = json.loads(line)
        given = record["input"] if "input" in record else record["i"]  # "i" until TVM 0.5
        target, task, arguments = given[:3]
        kind = target.split()[0]
        operator, _, _ = task.partition("/")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise NotExpressible("is not a line of AutoTVM's log") from error
    if operator in [each.name for each in operators()]:
        return Shape(workload_of(operator, _pairs(arguments)), _TARGETS.get(kind, "auto"))
    return Shape(_workload(task, arguments), _TARGETS.get(kind, "auto"))


def _workload(task: str, arguments: Any) -> Any:
    name = task.partition(".")[0].removeprefix("topi_nn_")
    for known, build in ((_DEPTHWISE, depthwise_conv2d), (_CONV1D, conv1d)):
        if name in known:
            return build(_window(arguments))
    if name.startswith(("depthwise_conv2d", "conv1d_nwc")):
        raise NotExpressible(f"{quoted(task)} has a layout other than NCHW or NCW")
    raise NotExpressible(f"{quoted(task)} is a task of another operator")


def _window(arguments: Any) -> Window:
    try:
        (_, data, dtype), (_, weight, weight_dtype) = arguments[:2]
        strides, padding, *rest = arguments[2:]
        dilation = [each for each in rest if not isinstance(each, str)]
        dtypes = [each for each in rest if isinstance(each, str) and each not in _LAYOUTS]
    except (ValueError, TypeError) as error:
        raise NotExpressible("the task's arguments are not TOPI's") from error
    return Window(
        data=data,
        weight=weight,
        dtypes=[dtype, weight_dtype, *dtypes],
        strides=strides,
        padding=padding,
        dilation=dilation[0] if dilation else 1,
    )


def _pairs(arguments: Any) -> dict[str, Any]:
    """Return the fields of a task that this project exported: the workload's names and values."""
    try:
        return {name: value for name, value in arguments}  # noqa: C416 - dict() takes strings
    except (ValueError, TypeError) as error:
        raise NotExpressible("the task's arguments are not the fields of a workload") from error

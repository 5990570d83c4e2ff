"""The workloads of a model that is given by its name.

The model is built with random weights, and called on tensors without data. So no GPU is needed, and
a batch of any size costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.parameter import is_lazy

from tuner.errors import BadOrder, MissingRuntime, UnusableModel
from tuner.torch.model.capture import Captured, capture
from tuner.torch.model.flow.dataflow import run
from tuner.torch.model.report import in_a_line
from tuner.torch.model.survey import Mode

TIMM = "timm"


def workloads_of(
    name: str,
    batch: int,
    dtype: str,
    layout: str | None = None,
    shape: tuple[int, ...] | None = None,
    mode: Mode = "inference",
) -> list[Captured]:
    """Return the workloads that :func:`tuner.torch.optimize_` would look up for a named model.

    ``name`` is ``timm:NAME``, or ``module:callable`` for a callable without arguments that returns
    the model. ``shape`` is that of its input without the ``batch``; by default it is the one that
    the model's ``default_cfg`` names, as timm's have it. ``dtype`` is one of a workload's.
    ``layout`` is NCHW or NHWC for images, NCW or NWC for signals, by default the first.

    Raises UnusableModel if the model can't be built or called, or calls neither operator;
    MissingRuntime if timm is not installed; BadOrder for a layout with other axes than the input.
    """
    module, _, made = name.partition(":")
    model = _from_timm(name, made) if module == TIMM else _from_callable(name, module, made)
    shape = shape or _default_shape(name, model)
    if layout is not None and len(layout) != len(shape) + 1:
        last = ("NCW", "NWC") if len(shape) == 2 else ("NCHW", "NHWC")
        raise BadOrder("layout", f"{layout} does not fit this input: give {' or '.join(last)}")
    channels_last = layout in ("NHWC", "NWC")
    model.eval().to(getattr(torch, dtype))
    if channels_last and len(shape) == 3:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        if any(map(is_lazy, model.parameters())):  # lazy shapes follow from data
            run(model, (torch.zeros(1, *shape, dtype=getattr(torch, dtype)),), {})
        without_data = FakeTensorMode(allow_non_fake_inputs=True)
        _drop_data(model, without_data)
        with without_data:
            x = torch.empty(batch, *shape, dtype=getattr(torch, dtype))
            found = capture(model, _channels_last(x) if channels_last else x, mode=mode)
    except Exception as error:
        given = "x".join(map(str, (batch, *shape)))
        raise UnusableModel(
            name, f"its call fails on an input of {given}: {in_a_line(error)}"
        ) from error
    if not found:
        raise UnusableModel(name, "it calls no conv1d and no depthwise conv2d")
    return found


def _from_timm(name: str, wanted: str) -> nn.Module:
    """Return timm's model ``wanted``, with random weights."""
    try:
        timm = importlib.import_module(TIMM)
    except ImportError as error:
        raise MissingRuntime(
            f"timm is not installed ({error})", "pip install timm, or name another MODULE:CALLABLE"
        ) from error
    if not timm.is_model(wanted):
        near = get_close_matches(wanted, timm.list_models())
        others = ", ".join(near) or "those that timm.list_models() names"
        raise UnusableModel(name, f"timm {timm.__version__} has no such model, but has {others}")
    return _build(name, lambda: timm.create_model(wanted, pretrained=False))


def _from_callable(name: str, module: str, path: str) -> nn.Module:
    """Return the model that the callable at ``path`` in ``module`` makes.

    As with `python -m`, modules in the working directory can be imported, but only if no installed
    module has the name.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise UnusableModel(name, f"{module} can't be imported: {in_a_line(error)}") from error
    make: Any = found
    for part in path.split("."):
        make = getattr(make, part, None)
    if not callable(make):
        raise UnusableModel(name, f"{module} has no callable {path!r}")
    return _build(name, make)


def _build(name: str, make: Callable[[], Any]) -> nn.Module:
    try:
        model = make()
    except Exception as error:
        raise UnusableModel(name, f"it can't be built: {in_a_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise UnusableModel(
            name, f"it makes a {type(model).__name__}, and must make a torch.nn.Module"
        )
    return model


def _default_shape(name: str, model: nn.Module) -> tuple[int, ...]:
    """Return the shape of the input that the model names. Raises UnusableModel if it names none."""
    config: Any = getattr(model, "default_cfg", None)
    size = config.get("input_size") if isinstance(config, dict) else None
    if size is None:
        raise UnusableModel(
            name, "it names no input shape (default_cfg): give --input, such as --input 3x224x224"
        )
    return tuple(size)


def _drop_data(model: nn.Module, mode: FakeTensorMode) -> None:
    """Replace the model's parameters and buffers, in place, by tensors without data."""
    for module in model.modules():
        for own in (module._parameters, module._buffers):
            tensors: dict[str, Any] = own
            for key, tensor in tensors.items():
                if tensor is not None:
                    without = mode.from_tensor(tensor.detach())
                    is_parameter = isinstance(tensor, nn.Parameter)
                    trained = tensor.requires_grad
                    tensors[key] = nn.Parameter(without, trained) if is_parameter else without


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` with its channels last in memory."""
    if x.ndim == 4:
        return x.to(memory_format=torch.channels_last)
    return x.mT.contiguous().mT

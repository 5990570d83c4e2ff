"""Checks of what callers pass to modules and to ``optimize_``.

Each check raises WrongArgument, which names the argument, what was given and what is allowed.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import torch

from tuner.client.source import Source
from tuner.errors import WrongArgument


def whole(name: str, given: Any, least: int = 1) -> int:
    """Return ``given`` as an int. Raise WrongArgument unless it is whole and at least ``least``."""
    number = _index(given)
    if number is None or number < least:
        raise WrongArgument(f"{name} is {given!r}, and must be a whole number of {least} or more")
    return number


def sides(given: Any, *names: str) -> tuple[int, ...]:
    """Return the padding ``given`` as the number of zeros at each of the sides ``names``."""
    several = isinstance(given, Sequence) and len(given) == len(names)
    numbers = [_index(each) for each in given] if several else []
    zeros = tuple(each for each in numbers if each is not None and each >= 0)
    if len(zeros) != len(names):
        raise WrongArgument(
            f"padding is {given!r}, and must be {len(names)} whole numbers of 0 or more: the zeros "
            f"({', '.join(names)})"
        )
    return zeros


def one_of(name: str, given: Any, known: Sequence[Any]) -> None:
    """Raise WrongArgument unless ``given`` is one of ``known``."""
    if given not in known:
        names = ", ".join(map(str, known))
        raise WrongArgument(f"{name} is {given!r}, and must be one of {names}")


def parameter(name: str, given: Any) -> torch.nn.Parameter:
    """Return ``given`` as a parameter.

    A parameter is returned as it is, so that a module and its replacement train the same parameter.
    A plain tensor becomes a parameter on the same memory, and requires grad only if the tensor
    does.
    """
    if isinstance(given, torch.nn.Parameter):
        return given
    if not isinstance(given, torch.Tensor):
        raise WrongArgument(
            f"{name} is a {type(given).__name__}, and must be a tensor: torch.as_tensor makes one"
        )
    return torch.nn.Parameter(given.detach(), requires_grad=given.requires_grad)


def bias(given: Any, filters: int) -> None:
    """Raise WrongArgument if a bias is given that has not ``filters`` elements."""
    if given is not None and given.numel() != filters:
        raise WrongArgument(
            f"bias has shape {tuple(given.shape)}, and must have ({filters},), as the weight has "
            "so many kernels"
        )


def model(given: Any) -> None:
    """Raise WrongArgument unless ``given`` is a ``torch.nn.Module`` that is not sharded."""
    if not isinstance(given, torch.nn.Module):
        raise WrongArgument(f"model is a {type(given).__name__}, and must be a torch.nn.Module")
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    sharded = () if fsdp is None else (fsdp.FSDPModule, fsdp.FullyShardedDataParallel)
    if any(isinstance(module, sharded) for module in given.modules()):
        raise WrongArgument(
            "model is sharded by torch.distributed.fsdp, which keeps the modules and "
            "parameters that it has found; shard the model after this call"
        )


def source(given: Any, *, or_none: str = "") -> None:
    """Raise WrongArgument unless ``given`` is a Source.

    If ``or_none`` is not empty, None passes too. ``or_none`` ends the error's message, and says
    there that None is allowed.
    """
    if not isinstance(given, Source) and not (or_none and given is None):
        raise WrongArgument(
            f"source is a {type(given).__name__}, and must be a tuner.client.client.Client or a "
            f"tuner.client.local.Local{or_none}"
        )


def _index(given: Any) -> int | None:
    try:
        return operator.index(given)
    except TypeError:
        return None


def must_fit(name: str, given: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Raise WrongArgument unless the tensor has that shape and dtype: it is not broadcast."""
    if (given.shape, given.dtype) != (shape, dtype):
        raise WrongArgument(
            f"the {name} has shape {tuple(given.shape)} and is {given.dtype}; it must have "
            f"{tuple(shape)} and be {dtype}"
        )

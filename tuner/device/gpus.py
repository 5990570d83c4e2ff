"""Choosing which GPUs of a machine to use, by the names that CUDA_VISIBLE_DEVICES takes."""

from __future__ import annotations

import os

from tuner.device import cuda_facts
from tuner.errors import NoDevice

MIG = "MIG-"
"""How the name of an instance of a Multi-Instance GPU begins."""


def chosen(asked: str) -> list[str]:
    """Return the GPUs that ``asked`` names, as CUDA_VISIBLE_DEVICES names them.

    ``asked`` is ``all``, for all that are visible, or a list such as ``0,1`` of numbers that count
    the visible GPUs from 0. Raises NoDevice if CUDA can't be used, or if a number is wrong or comes
    twice.
    """
    missing = cuda_facts.missing()
    if missing is not None:
        raise NoDevice(missing)
    return among(asked, _visible())


def among(asked: str, visible: list[str]) -> list[str]:
    """Return the GPUs that ``asked`` names among these visible ones, as :func:`chosen` does.

    Raises NoDevice if a number is wrong or comes twice.
    """
    if asked == "all":
        return visible
    numbers = [part.strip() for part in asked.split(",")]
    wrong = [n for n in numbers if not n.isdecimal() or int(n) >= len(visible)]
    if wrong or len(set(map(int, numbers))) < len(numbers):
        raise NoDevice(
            f"--gpus {asked}: name all, or different numbers from 0 to {len(visible) - 1}, "
            "as in --gpus 0,1"
        )
    return [visible[int(n)] for n in numbers]


def _visible() -> list[str]:
    """Return the visible GPUs: the entries of CUDA_VISIBLE_DEVICES that CUDA sees, or numbers if it
    is not set.

    CUDA ignores the first entry that names no GPU, and all entries after it. It shows a process
    only one instance of Multi-Instance GPUs, so here all named instances count: each is for a
    process of its own.
    """
    named, count = os.environ.get("CUDA_VISIBLE_DEVICES"), cuda_facts.count()
    if not named:
        return [str(n) for n in range(count)]
    entries = [each.strip() for each in named.split(",")]
    return entries if all(each.startswith(MIG) for each in entries) else entries[:count]

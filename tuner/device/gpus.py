"""Which GPUs of a machine to use, by the names of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os

from tuner.device import cuda_facts
from tuner.errors import NoDevice


def chosen(asked: str) -> list[str]:
    """``all`` that are visible, or those of a list of numbers, counted among the visible.

    Raises NoDevice if there is none, or none of that number."""
    missing = cuda_facts.missing()
    if missing is not None:
        raise NoDevice(missing)
    return among(asked, _visible())


def among(asked: str, visible: list[str]) -> list[str]:
    """As :func:`chosen`, from these visible GPUs. Raises NoDevice."""
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
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return [each.strip() for each in named.split(",")]
    return [str(n) for n in range(cuda_facts.count())]

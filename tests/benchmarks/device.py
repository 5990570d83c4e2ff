"""The device of a benchmark."""

from __future__ import annotations

from typing import Any

from tuner.device.detect import detect
from tuner.process.child import Child


def device_of(kind: str) -> Any:
    """Asked in a child: the CUDA context of this process is PyTorch's."""
    child = Child()
    try:
        return child.call(detect, kind, timeout=120)
    finally:
        child.close()

"""The device that a benchmark with PyTorch runs on."""

from __future__ import annotations

from typing import Any

from tuner.device.detect import detect
from tuner.process.child import Child


def device_of(kind: str) -> Any:
    """Return the device of a kind. A child process detects it, so that this process has only
    PyTorch's CUDA context."""
    child = Child()
    try:
        return child.call(detect, kind, timeout=120)
    finally:
        child.close()

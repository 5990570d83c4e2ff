"""Fixtures: an input for models, and a record of which calls took a shortcut."""

from typing import Any

import pytest


@pytest.fixture
def x() -> Any:
    """Return a random input in NHWC, for which ``biased`` of the small libraries is tuned."""
    import torch

    torch.manual_seed(1)
    return torch.randn(2, 6, 7, 9).to(memory_format=torch.channels_last)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that records, for each call of a shortcut from now on, whether the shortcut
    recognised the call and computed it."""
    from tuner.torch.shortcut import Shortcut

    said: list[bool] = []
    ask = Shortcut.__call__

    def told(shortcut: Shortcut, *given: Any) -> Any:
        y = ask(shortcut, *given)
        said.append(y is not None)
        return y

    monkeypatch.setattr(Shortcut, "__call__", told)
    return said

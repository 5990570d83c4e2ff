"""Fixtures: an input for models, the source of operators by name, and a record of which calls
took a shortcut."""

from collections.abc import Iterator
from typing import Any

import pytest

from tuner.client.local import Local


@pytest.fixture
def x() -> Any:
    """Return a random input in NHWC, for which ``biased`` of the small libraries is tuned."""
    import torch

    torch.manual_seed(1)
    return torch.randn(2, 6, 7, 9).to(memory_format=torch.channels_last)


@pytest.fixture
def used(source: Local) -> Iterator[None]:
    """Let operators by name use the small libraries, and forget graphs afterwards."""
    import torch

    import tuner.torch

    tuner.torch.use(source)
    yield
    tuner.torch.use(None)
    torch.compiler.reset()


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

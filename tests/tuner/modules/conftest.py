"""What models are called with."""

from typing import Any

import pytest


@pytest.fixture
def x() -> Any:
    import torch

    torch.manual_seed(1)
    return torch.randn(2, 6, 7, 9).to(memory_format=torch.channels_last)

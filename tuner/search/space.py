"""What a strategy needs of a space; `templates.spaces.space.ConfigSpace` and its union have it."""

from collections.abc import Callable, Container, Sequence
from typing import Any, Protocol

import numpy as np

Featurize = Callable[[dict[str, Any]], dict[str, float]]
"""Quantities derived from a configuration (shared memory, blocks, …) for a cost model."""


class Knob(Protocol):
    """A named choice; lists among the values are splits."""

    @property
    def name(self) -> str: ...

    @property
    def values(self) -> Sequence[Any]: ...


class SearchSpace(Protocol):
    """Configurations with dense indices; a configuration lacks the knobs that it doesn't have."""

    @property
    def knobs(self) -> Sequence[Knob]: ...

    @property
    def parts(self) -> Sequence[range]:
        """The indices of each template."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> dict[str, Any]: ...

    def __contains__(self, config: object, /) -> bool: ...

    def index(self, config: object, /) -> int: ...

    def sample(
        self,
        rng: np.random.Generator,
        count: int,
        exclude: Container[int] = (),
        within: range | None = None,
    ) -> list[int]: ...

    def neighbours(self, index: int) -> list[int]: ...

"""What a search needs of a space, be it one template's or several templates'."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from templates.errors import InvalidConfig
from templates.spaces.knob import Config, Knob

if TYPE_CHECKING:
    import numpy as np


class SearchSpace(ABC):
    """Configurations with dense indices. A configuration lacks the knobs that it doesn't have."""

    @property
    @abstractmethod
    def knobs(self) -> tuple[Knob, ...]: ...

    @property
    @abstractmethod
    def parts(self) -> tuple[range, ...]:
        """The indices of each template, none if it has no configuration."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Config: ...

    @abstractmethod
    def index(self, config: object) -> int:
        """The index of a configuration. Raises InvalidConfig, which names what is wrong."""

    @abstractmethod
    def neighbours(self, index: int) -> list[int]:
        """Indices of configurations of the same template that differ in exactly one of the knobs
        both have, ascending. If that change makes other knobs present, each of their values
        counts."""

    def __iter__(self) -> Iterator[Config]:
        return (self[index] for index in range(len(self)))

    def __contains__(self, config: object) -> bool:
        try:
            self.index(config)
        except InvalidConfig:
            return False
        return True

    def sample(
        self,
        rng: np.random.Generator,
        count: int,
        exclude: Container[int] = (),
        within: range | None = None,
    ) -> list[int]:
        """`count` different indices outside `exclude`, drawn uniformly; of the range `within` if
        there is one. Fewer if fewer are left. Takes time in proportion to `count` while much is
        left."""
        drawn: dict[int, None] = {}
        whole = range(len(self)) if within is None else within
        first, size = whole.start, len(whole)
        if count <= 0 or size <= 0:
            return []
        for _ in range(4):
            if 2 * count >= size:
                break
            for index in rng.integers(first, first + size, 2 * count).tolist():
                if index not in exclude:
                    drawn[index] = None
                    if len(drawn) == count:
                        return list(drawn)
        for index in rng.permutation(size).tolist():
            if len(drawn) == count:
                break
            if index + first not in exclude:
                drawn[index + first] = None
        return list(drawn)

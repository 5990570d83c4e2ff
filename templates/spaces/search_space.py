"""Interface of a space that is searched: that of one template or of several templates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from templates.errors import InvalidConfig
from templates.spaces.knob import Config, Knob

if TYPE_CHECKING:
    import numpy as np


class SearchSpace(ABC):
    """A sequence of configurations with dense indices.

    A configuration has no entry for a knob that is absent.
    """

    @property
    @abstractmethod
    def knobs(self) -> tuple[Knob, ...]: ...

    @property
    @abstractmethod
    def parts(self) -> tuple[range, ...]:
        """Return the range of indices of each template, empty if it has no configuration."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Config: ...

    @abstractmethod
    def index(self, config: object) -> int:
        """Return the index of a configuration. Raise InvalidConfig, which names what is wrong."""

    @abstractmethod
    def neighbours(self, index: int) -> list[int]:
        """Return the indices of configurations that differ in exactly one of the knobs both have.

        They are of the same template, and ascending. If the change makes other knobs present, each
        of their values gives a neighbour.
        """

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
        """Return `count` different indices outside `exclude`, drawn uniformly.

        They are drawn from the range `within` if it is given. Return fewer if fewer are left. The
        time is proportional to `count` as long as many are left.
        """
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

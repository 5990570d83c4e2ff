"""Features of configurations for a cost model: a table of numbers, each row computed once."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.spaces.knob import Knob
from templates.spaces.search_space import SearchSpace

Rows = NDArray[np.float32]
Featurize = Callable[[dict[str, Any]], dict[str, float]]
"""A function that derives quantities (shared memory, blocks, …) from a configuration, by name."""
Encoder = Callable[[dict[str, Any]], list[float]]
"""A function that encodes one knob of a configuration as numbers, always the same number of
them."""


class FeatureTable:
    """A table with a row for each configuration: first its knobs, scaled to 0..1 in
    ``knob_columns`` columns, then the derived features, unscaled, in the order they are met.

    A number is encoded by its logarithm, a split by the logarithm of each part, and anything else
    one-hot. A value that a configuration does not have is NaN, which XGBoost treats as missing. In
    another workload's space, a knob of the same name may have values of another kind. Such a value
    is NaN if this knob has numbers or splits. Otherwise it is all zeros, like any value that this
    knob does not have.
    """

    def __init__(self, space: SearchSpace, featurize: Featurize) -> None:
        self._space = space
        self._featurize = featurize
        self._encoders = [_encoder(knob) for knob in space.knobs if len(knob.values) > 1]
        empty = [encode({}) for encode in self._encoders]
        self.knob_columns = sum(len(columns) for columns in empty)
        self._derived: dict[str, int] = {}
        self._row_of: dict[int, int] = {}
        self._height = 0
        self._matrix: Rows = np.full((256, self.knob_columns), np.nan, np.float32)

    def rows(self, indices: Sequence[int]) -> Rows:
        """Return a row for each index, an array of shape (len(indices), features)."""
        for index in indices:
            if index not in self._row_of:
                config = self._space[index]
                self._row_of[index] = self.add(config, self._featurize(config))
        return self.at([self._row_of[index] for index in indices])

    def at(self, places: Sequence[int]) -> Rows:
        """Return the rows at these places of the table. Later results are wider if new features
        were added."""
        return self._matrix[list(places)]

    def add(self, config: dict[str, Any], derived: dict[str, float]) -> int:
        """Add a row and return its place. The configuration may be of another workload's space."""
        for name in derived:
            self._derived.setdefault(name, self.knob_columns + len(self._derived))
        row, self._height = self._height, self._height + 1
        height, width = self._matrix.shape
        taller = 2 * height if row == height else height
        wider = self.knob_columns + len(self._derived)
        if (taller, wider) != (height, width):
            larger = np.full((taller, wider), np.nan, np.float32)
            larger[:height, :width] = self._matrix
            self._matrix = larger
        knobs = [number for encode in self._encoders for number in encode(config)]
        self._matrix[row, : self.knob_columns] = knobs
        for name, value in derived.items():
            if math.isfinite(value):
                self._matrix[row, self._derived[name]] = value
        return row


def _encoder(knob: Knob) -> Encoder:
    """Return the encoder of a knob."""
    name = knob.name
    values: list[Any] = list(knob.values)
    if all(isinstance(value, list) and len(value) == len(values[0]) for value in values):
        return _split(name, values)
    if all(isinstance(value, int | float) for value in values):
        low, high = _log(min(values)), _log(max(values))
        scale = 1 / (high - low)

        def scaled(config: dict[str, Any]) -> list[float]:
            value = config.get(name)
            return [(_log(value) - low) * scale if isinstance(value, int | float) else math.nan]

        return scaled
    return lambda c: [float(c[name] == value) if name in c else math.nan for value in values]


def _split(name: str, values: list[list[int]]) -> Encoder:
    """Return the encoder of a knob that splits an extent into parts: a number for each part."""
    parts = len(values[0])
    scale = 1 / max(1e-9, _log(max(max(value) for value in values)))

    def encode(config: dict[str, Any]) -> list[float]:
        value = config.get(name)
        if not isinstance(value, list) or len(value) != parts:
            return [math.nan] * parts
        return [_log(part) * scale for part in value]

    return encode


def _log(number: float) -> float:
    """Return log2(n) + 1 for a number n of at least 1, n itself between -1 and 1, and the negative
    of -n's value below. So 0 and negative numbers have a logarithm too, and the order is kept."""
    return math.copysign(math.log2(abs(number)) + 1 if abs(number) >= 1 else abs(number), number)

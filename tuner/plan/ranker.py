"""Rankers: models that say which configurations of an untuned shape are likely to be fast.

They were trained on trials of other shapes. The package has one for each operator and kind of
device, and another one for the templates of gradients if trials of those were recorded.
``python -m tests.benchmarks.predicted train`` makes them from recorded trials.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.limits import DeviceLimits
from templates.workload import Workload
from tuner.plan.traits import config_traits, shape_traits

FOLDER = Path(__file__).parent / "pretrained"

Config = dict[str, Any]
Derive = Callable[[Config], dict[str, float]]


class Ranker:
    """A trained XGBoost model over named traits (:mod:`tuner.plan.traits`).

    ``columns`` gives the column of each trait. The attribute ``trained_on`` of ``booster`` names
    the trials that the model was trained on.
    """

    def __init__(self, booster: Any) -> None:
        self._booster = booster
        self.columns: dict[str, int] = {name: n for n, name in enumerate(booster.feature_names)}

    def expected(
        self, workload: Workload, limits: DeviceLimits, derive: Derive, configs: Sequence[Config]
    ) -> NDArray[np.float32]:
        """Return the expected slowness of each configuration, an array of shape (len(configs),).

        The value is log2 of the configuration's time over that of the shape's fastest trial.
        ``derive`` returns the traits that a configuration's template derives from it.
        """
        rows = np.full((len(configs), len(self.columns)), np.nan, np.float32)
        self._fill(rows, slice(None), shape_traits(workload, limits))
        for place, config in enumerate(configs):
            self._fill(rows, place, config_traits(config, derive(config)))
        return self.scores(rows)

    def scores(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return :meth:`expected` for rows of traits of shape (n, len(columns)).

        A trait that a configuration lacks is NaN.
        """
        return np.asarray(self._booster.inplace_predict(rows))

    def _fill(self, rows: NDArray[np.float32], place: Any, found: dict[str, float]) -> None:
        for name, value in found.items():
            column = self.columns.get(name)
            if column is not None:
                rows[place, column] = value

    def knows(self, template: str) -> bool:
        """Return whether the ranker has learnt from trials of this template."""
        return f"knob:template={template}" in self.columns

    @property
    def trained_on(self) -> str:
        """A text that names the device, the shapes, the trials and the date of the training."""
        return str(self._booster.attr("trained_on"))

    def save(self, path: Path) -> None:
        """Write the model to a file; the same model gives the same bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(bytes(self._booster.save_raw("ubj")), mtime=0))

    @classmethod
    def load(cls, path: Path) -> Ranker:
        """Read a model that :meth:`save` wrote. It predicts on one thread."""
        import xgboost

        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(gzip.decompress(path.read_bytes())))
        return cls(booster)


def path_of(operator: str, kind: str, *, gradients: bool = False) -> Path:
    """Return the path of the package's ranker; the file need not exist."""
    return FOLDER / f"{operator}-{kind}{'-gradients' if gradients else ''}.ubj.gz"


@cache
def pretrained(operator: str, kind: str, *, gradients: bool = False) -> Ranker | None:
    """Return the package's ranker for forward workloads or, with ``gradients``, for gradients.

    Return None if the package has none.
    """
    path = path_of(operator, kind, gradients=gradients)
    return Ranker.load(path) if path.exists() else None

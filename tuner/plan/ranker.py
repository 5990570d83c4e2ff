"""A ranker that was trained on other shapes: which configurations of a shape that nobody has tuned
are likely to be fast. The package has one for each operator and kind of device, and one for the
templates of gradients alone where trials of those were recorded, which
``python -m tests.benchmarks.predicted train`` makes of recorded trials."""

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
from tuner.plan.traits import of_config, of_shape

FOLDER = Path(__file__).parent / "pretrained"

Config = dict[str, Any]
Derive = Callable[[Config], dict[str, float]]


class Ranker:
    """XGBoost's trees over named traits. ``booster`` is trained; its attributes say on what."""

    def __init__(self, booster: Any) -> None:
        self._booster = booster
        self.columns: dict[str, int] = {name: n for n, name in enumerate(booster.feature_names)}

    def expected(
        self, workload: Workload, limits: DeviceLimits, derive: Derive, configs: Sequence[Config]
    ) -> NDArray[np.float32]:
        """log2 of each configuration's time over that of the fastest trial, (len(configs),);
        ``derive`` gives what its template derives from it."""
        rows = np.full((len(configs), len(self.columns)), np.nan, np.float32)
        self._fill(rows, slice(None), of_shape(workload, limits))
        for place, config in enumerate(configs):
            self._fill(rows, place, of_config(config, derive(config)))
        return self.scores(rows)

    def scores(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """The same of traits in the order of ``columns``, NaN for what there is none of."""
        return np.asarray(self._booster.inplace_predict(rows))

    def _fill(self, rows: NDArray[np.float32], place: Any, found: dict[str, float]) -> None:
        for name, value in found.items():
            column = self.columns.get(name)
            if column is not None:
                rows[place, column] = value

    def knows(self, template: str) -> bool:
        """Whether it has learnt from trials of that template."""
        return f"knob:template={template}" in self.columns

    @property
    def trained_on(self) -> str:
        """Device, shapes, trials and date."""
        return str(self._booster.attr("trained_on"))

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(bytes(self._booster.save_raw("ubj")), mtime=0))

    @classmethod
    def load(cls, path: Path) -> Ranker:
        import xgboost

        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(gzip.decompress(path.read_bytes())))
        return cls(booster)


def path_of(operator: str, kind: str, *, gradients: bool = False) -> Path:
    """The file of the package's own, if there is one."""
    return FOLDER / f"{operator}-{kind}{'-gradients' if gradients else ''}.ubj.gz"


@cache
def pretrained(operator: str, kind: str, *, gradients: bool = False) -> Ranker | None:
    """The package's own, of forward workloads or of the templates of ``gradients``; None if nothing
    was recorded to learn from."""
    path = path_of(operator, kind, gradients=gradients)
    return Ranker.load(path) if path.exists() else None

"""Recorded trials: some configurations of many shapes with their times on one device."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import templates
from templates.limits import DeviceLimits
from templates.workload import Workload

FOLDER = Path(__file__).parent / "recordings"

Config = dict[str, Any]
Timed = tuple[Config, float | None]
"""A configuration and its warm median in µs, None if it failed."""


@dataclass
class Recorded:
    """Trials of one shape, in the order in which they were measured."""

    operator: str
    workload: dict[str, Any]
    knobs: list[list[str]] = field(default_factory=list)
    """The different lists of knob names of configurations, each with "template" first."""
    trials: list[list[Any]] = field(default_factory=list)
    """Each is [place of its names in ``knobs``, *values, warm median in µs or None]."""

    @classmethod
    def of(cls, workload: Workload, trials: Sequence[Timed]) -> Recorded:
        made = cls(workload.operator, workload.explicit_fields)
        for config, time_us in trials:
            names = list(config)
            if names not in made.knobs:
                made.knobs.append(names)
            rounded = time_us and float(f"{time_us:.4g}")
            made.trials.append([made.knobs.index(names), *config.values(), rounded])
        return made

    @cached_property
    def shape(self) -> Workload:
        """The workload."""
        return templates.operator(self.operator).workload.model_validate(self.workload)

    def __iter__(self) -> Iterator[Timed]:
        for place, *values, time_us in self.trials:
            yield dict(zip(self.knobs[place], values, strict=True)), time_us

    @property
    def best_us(self) -> float:
        """The least time, or 0 if every trial failed."""
        return min((time_us for _, time_us in self if time_us is not None), default=0.0)


@dataclass
class Recordings:
    """The recorded shapes of one device. ``versions`` has TVM's and the templates' versions."""

    device: dict[str, Any]  # fingerprint
    date: str
    versions: dict[str, Any]
    shapes: list[Recorded]

    @property
    def limits(self) -> DeviceLimits:
        return DeviceLimits.from_json(self.device["limits"])

    def of(self, operator: str) -> list[Recorded]:
        return [shape for shape in self.shapes if shape.operator == operator]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))  # equal bytes for equal content

    @classmethod
    def load(cls, path: Path) -> Recordings:
        told = json.loads(gzip.decompress(path.read_bytes()))
        return cls(**told | {"shapes": [Recorded(**each) for each in told["shapes"]]})

"""Recorded spaces: configurations of a workload on one device, each with its time."""

from __future__ import annotations

import gzip
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import templates
from templates.limits import DeviceLimits
from templates.spaces.search_space import SearchSpace
from templates.spaces.union import UnionSpace
from templates.workload import Workload
from tests.benchmarks.predicted.known import SAMPLES
from tests.benchmarks.predicted.trials import Recorded, Recordings
from tests.benchmarks.strategies.recorded_space import RecordedSpace
from tests.benchmarks.strategies.replay import good_enough
from tests.benchmarks.strategies.space_json import from_json

FOLDER = Path(__file__).parents[1] / "spaces"
JUDGED = Path(__file__).parent / "judged"
"""Recordings of parts of spaces for the shapes of ``JUDGED_ON``. No ranker learns from them."""


class Known(ABC):
    """A recorded space, as a replay needs it. ``times`` has each configuration's time in µs, in the
    order of ``space``. The time of a failed configuration is None."""

    operator: str
    workload: dict[str, Any]
    device: dict[str, Any]  # fingerprint
    date: str
    times: list[float | None]

    @property
    @abstractmethod
    def space(self) -> SearchSpace: ...

    @property
    def machine(self) -> tuple[str, str]:
        """The device's name and architecture."""
        return self.device["name"], self.device["arch"]

    @property
    def good(self) -> int:
        """The number of configurations within 5 % of the optimum."""
        limit = good_enough(self.times)
        return sum(time is not None and time <= limit for time in self.times)

    @cached_property
    def shape(self) -> Workload:
        return templates.operator(self.operator).workload.model_validate(self.workload)

    @cached_property
    def limits(self) -> DeviceLimits:
        return DeviceLimits.from_json(self.device["limits"])

    @cached_property
    def _templates(self) -> dict[str, Any]:
        return {each.name: each for each in templates.templates_for(self.shape, self.limits)}

    @cached_property
    def _features(self) -> dict[str, dict[str, float]]:
        return {}

    def features(self, config: dict[str, Any]) -> dict[str, float]:
        """Return the features that today's template derives from a configuration."""
        name = json.dumps(config)
        if name not in self._features:
            derived = self._templates[config["template"]].features(self.shape, config, self.limits)
            own = {"bytes": self.shape.bytes, "flops": self.shape.flops}
            self._features[name] = derived | own
        return self._features[name]


@dataclass(frozen=True)
class Recording(Known):
    """A recording of a whole space. The space is stored too, so it does not change with the
    templates."""

    operator: str
    workload: dict[str, Any]
    device: dict[str, Any]
    date: str
    versions: dict[str, str]
    space_json: dict[str, Any]
    times: list[float | None]

    @cached_property
    def space(self) -> UnionSpace:
        return from_json(self.space_json)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))  # equal bytes for equal content


class Sample(Known):
    """A recording of part of a space."""

    def __init__(self, recorded: Recorded, device: Recordings) -> None:
        self.operator, self.workload = recorded.operator, recorded.workload
        self.device, self.date = device.device, device.date
        trials = sorted(recorded, key=lambda trial: str(trial[0]["template"]))
        self._configs = [config for config, _ in trials]
        self.times = [time_us for _, time_us in trials]

    @cached_property
    def space(self) -> RecordedSpace:
        return RecordedSpace(self._configs)


@cache
def load(name: str) -> Recording:
    """Return the stored recording of a name."""
    return Recording(**json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())))


def names() -> list[str]:
    """Return the names of the stored recordings of whole spaces."""
    return sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


@cache
def samples() -> dict[str, Sample]:
    """Return all stored samples, by "KIND KEY": the kind of device and the workload's key."""
    paths = [path for folder in (SAMPLES, JUDGED) for path in sorted(folder.glob("*.json.gz"))]
    devices = [Recordings.load(path) for path in paths]
    return {
        f"{device.device['kind']} {each.shape.key}": Sample(each, device)
        for device in devices
        for each in device.shapes
    }

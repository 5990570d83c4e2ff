"""Recorded spaces: every configuration of a workload on one device with its time."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import templates
from templates.limits import DeviceLimits
from templates.spaces.union import UnionSpace
from tests.benchmarks.strategies.replay import good_enough
from tests.benchmarks.strategies.space_json import from_json

FOLDER = Path(__file__).parents[1] / "spaces"


@dataclass(frozen=True)
class Recording:
    """``times`` has one a configuration, in the order of ``space``, None where it failed. The space
    is stored with it: it stays what it was when the templates change."""

    operator: str
    workload: dict[str, Any]
    device: dict[str, Any]  # fingerprint
    date: str
    versions: dict[str, str]
    space_json: dict[str, Any]
    times: list[float | None]

    @cached_property
    def space(self) -> UnionSpace:
        return from_json(self.space_json)

    @property
    def good(self) -> int:
        """How many are within 5 % of the optimum."""
        limit = good_enough(self.times)
        return sum(time is not None and time <= limit for time in self.times)

    @cached_property
    def _features(self) -> dict[str, dict[str, float]]:
        return {}

    def features(self, config: dict[str, Any]) -> dict[str, float]:
        """What today's template derives from the configuration."""
        name = json.dumps(config)
        if name not in self._features:
            workload = templates.operator(self.operator).workload.model_validate(self.workload)
            limits = DeviceLimits.from_json(self.device["limits"])
            [template] = [
                each
                for each in templates.templates_for(workload, limits)
                if each.name == config["template"]
            ]
            derived = template.features(workload, config, limits)
            self._features[name] = derived | {"bytes": workload.bytes, "flops": workload.flops}
        return self._features[name]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))  # equal bytes for equal content


@cache
def load(name: str) -> Recording:
    """A stored one, by its name."""
    return Recording(**json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())))


def names() -> list[str]:
    return sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))

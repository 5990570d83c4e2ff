"""Where bests and their libraries come from: a service, or the database at hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from tuner import load as loading
from tuner.answers import Artifact, Best
from tuner.cache import Cache
from tuner.errors import NoLibrary
from tuner.load import Library


class Source(ABC):
    """Answers for a shape, and the files that belong to them, kept in a cache."""

    cache: Cache

    def __deepcopy__(self, _: object) -> Self:
        return self  # a connection: what is copied with it may share it

    @abstractmethod
    def best(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        target: str | None = None,
        device: str | None = None,
        **shape: Any,
    ) -> Best:
        """The best for a shape, the fastest of several devices'. Raises NotTuned."""

    @abstractmethod
    def _content(self, artifact: Artifact) -> AbstractContextManager[Iterator[bytes]]:
        """The artifact's bytes, piece by piece."""

    def load(self, best: Best) -> Library:
        """The best's library, downloaded where it is not in the cache. Raises NoLibrary for a
        nearest match that is not verified, and what :func:`tuner.load.load` raises."""
        library, manifest = best.artifacts.library, best.artifacts.manifest
        if library is None or manifest is None:
            raise NoLibrary(
                f"this {best.match} best of {best.operator} has no library of its own; "
                "submit the shape, or have this configuration verified for it, and load its best"
            )
        return loading.load(self.fetch(library, ".so"), self.fetch(manifest, ".json"))

    def fetch(self, artifact: Artifact, suffix: str = "") -> Path:
        """An artifact's file in the cache. Raises BrokenArtifact where the bytes that come, or lie
        there, are not those of its sha256."""
        name = artifact.sha256 + suffix
        found = self.cache.find(name, artifact.sha256)
        if found is not None:
            return found
        with self._content(artifact) as chunks:
            return self.cache.keep(name, artifact.sha256, artifact.size, chunks)

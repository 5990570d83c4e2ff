"""Where bests and their libraries come from: a service, or the database at hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import templates
from db.contract.best import ArtifactLink
from db.results import signed
from db.sql.errors import DatabaseUnavailable, StorageError
from templates.errors import TemplateError
from tuner.client.answers import Best
from tuner.client.cache import Cache
from tuner.errors import (
    BrokenArtifact,
    NoLibrary,
    ServiceUnreachable,
    TunerError,
    UntrustedSigner,
)
from tuner.library import manifest as manifests
from tuner.library.load import Library
from tuner.library.manifest import File, Manifest
from tuner.library.trust import Trusted

NO_ANSWER = (TunerError, StorageError)
"""What a source raises in the place of an answer: a service's refusals, or a database's."""
AWAY = (ServiceUnreachable, DatabaseUnavailable)
"""Of these, what one raises that has no answers at all."""


@dataclass(frozen=True)
class Files:
    """A best's library, its manifest, read and as bytes, and the signature over those bytes."""

    library: Path
    manifest: Manifest
    described: bytes
    signature: bytes


class Source(ABC):
    """Answers for a shape, and the files that belong to them, kept in a cache. ``where`` says in
    messages what it is."""

    cache: Cache
    where: str

    def __deepcopy__(self, _: object) -> Self:
        return self  # a connection: what is copied with it may share it

    @abstractmethod
    def best(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        match: str = "exact",
        target: str | None = None,
        device: str | None = None,
        templates: Sequence[str] | None = None,
        threads: int | None = None,
        parallel: bool = False,
        **shape: Any,
    ) -> Best:
        """The best for a shape, the fastest of several devices'; of ``templates`` if they are
        given, on at most so many ``threads`` of a CPU, and with ``parallel`` on several if there
        is one. If ``match`` is ``predicted`` and there is none, what is expected to be fast is
        built, checked and timed first. Raises NotTuned."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _content(self, artifact: ArtifactLink) -> AbstractContextManager[Iterator[bytes]]:
        """The artifact's bytes, piece by piece."""

    @abstractmethod
    def _trusted(self, signer: str) -> Trusted:
        """The keys of which a library's signer, whose public key is given, must be one."""

    def load(self, best: Best) -> Library:
        """The best's library, downloaded where it is not in the cache. Its manifest must be signed
        by a key that is trusted, and be of this workload on this kind of device; only then the
        library is fetched. Raises NoLibrary for a nearest match that is not verified, and what
        :func:`tuner.library.load.load` raises."""
        files = self.files(best)
        return Library(files.library, files.manifest)

    def files(self, best: Best) -> Files:
        """What :meth:`load` loads, checked as there and not loaded: its device need not be here.
        Raises NoLibrary, UntrustedSigner, BrokenArtifact."""
        library, manifest = best.artifacts.library, best.artifacts.manifest
        if library is None or manifest is None:
            raise NoLibrary(
                f"this {best.match} best of {best.operator} has no library of its own; "
                "submit the shape, or have this configuration verified for it, and load its best"
            )
        signature, what = best.artifacts.signature, f"the best of {best.operator} at {self.where}"
        if signature is None:
            raise UntrustedSigner(
                f"{what} is not signed, as those of older releases; tune it again: submit it with "
                "trials=1, on_existing='retune'"
            )
        described = self._small(manifest, ".json", manifests.MOST_BYTES)
        signs = self._small(signature, ".sig", signed.MOST_BYTES)
        read = manifests.verified(described, signs, self._trusted, what)
        _must_be_of(read, best, what)
        return Files(self.fetch(library, ".so"), read, described, signs)

    def fetch(self, artifact: ArtifactLink, suffix: str = "") -> Path:
        """An artifact's file in the cache. Raises BrokenArtifact if the bytes that come, or lie
        there, are not those of its sha256."""
        name = artifact.sha256 + suffix
        found = self.cache.find(name, artifact.sha256)
        if found is not None:
            return found
        with self._content(artifact) as chunks:
            return self.cache.keep(name, artifact.sha256, artifact.size, chunks)

    def _small(self, artifact: ArtifactLink, suffix: str, most: int) -> bytes:
        """The bytes of one that is read as a whole before anybody has vouched for it."""
        if artifact.size > most:
            raise BrokenArtifact(
                f"{artifact.sha256}{suffix} would have {artifact.size} bytes, and none has more "
                f"than {most}; {self.where} is damaged, or not honest"
            )
        return self.fetch(artifact, suffix).read_bytes()


def _must_be_of(manifest: Manifest, best: Best, what: str) -> None:
    """Whoever answers may hand out another library that is rightly signed too."""
    try:
        workload = templates.operator(best.operator).workload.model_validate(best.workload)
    except (TemplateError, ValueError) as error:
        raise BrokenArtifact(f"{what} is of a workload that can't be: {error}") from error
    held = [
        ("workload", manifest.workload.key, workload.key),
        ("kind of device", manifest.device.kind, best.device.kind),
    ]
    for name in ("library", "source", "record"):
        named: File = getattr(manifest, name)
        link: ArtifactLink | None = getattr(best.artifacts, name)
        if link is not None:
            held.append((name, f"{named.sha256}, {named.size} B", f"{link.sha256}, {link.size} B"))
    for name, said, wanted in held:
        if said != wanted:
            raise BrokenArtifact(
                f"{what} comes with a manifest of another {name}: {said}, not {wanted}; "
                "ask for the best again, or tune the workload again"
            )

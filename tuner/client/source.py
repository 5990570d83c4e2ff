"""The interface that a service's client and a local database share: bests and their libraries."""

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

SOURCE_ERRORS = (TunerError, StorageError)
"""The errors that a source raises instead of an answer, be it a service or a database."""
UNREACHABLE_ERRORS = (ServiceUnreachable, DatabaseUnavailable)
"""Those of SOURCE_ERRORS that a source raises if it can't be reached at all."""


@dataclass(frozen=True)
class Files:
    """The files of a best, after the signature was checked.

    ``library`` is its path in the cache. ``manifest`` is the parsed manifest, ``described`` its
    bytes, ``signature`` the signature over those bytes.
    """

    library: Path
    manifest: Manifest
    described: bytes
    signature: bytes


class Source(ABC):
    """A source of bests and of their files, which are kept in ``cache``.

    ``where`` names the source in messages.
    """

    cache: Cache
    where: str

    def __deepcopy__(self, _: object) -> Self:
        return self  # copies of an object that holds a source share its connection

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
        """Return the best for a shape; if several devices have one, the fastest.

        ``templates`` restricts the answer to bests of these templates, ``threads`` to bests on at
        most so many CPU threads. ``parallel`` prefers bests on several threads. If ``match`` is
        ``predicted`` and the shape has no best, configurations that are expected to be fast are
        built, checked and timed first. Raises NotTuned.
        """

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _content(self, artifact: ArtifactLink) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context that gives the artifact's bytes, piece by piece."""

    @abstractmethod
    def _trusted(self, signer: str) -> Trusted:
        """Return the keys among which the public key ``signer`` of a library must be."""

    def load(self, best: Best) -> Library:
        """Load the best's library; it is downloaded unless it is in the cache.

        The library is fetched only after its manifest was checked: a trusted key must have signed
        it, and it must be of this workload and kind of device. Raises NoLibrary for a nearest match
        that is not verified, and whatever :func:`tuner.library.load.load` raises.
        """
        files = self.files(best)
        return Library(files.library, files.manifest)

    def files(self, best: Best) -> Files:
        """Fetch and check the best's files like :meth:`load`, without loading the library.

        The library's device need not be on this machine. Raises NoLibrary, UntrustedSigner,
        BrokenArtifact.
        """
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
        """Return the path of an artifact's file in the cache; download it if it is not there.

        Raises BrokenArtifact if the downloaded bytes do not hash to its SHA-256.
        """
        name = artifact.sha256 + suffix
        found = self.cache.find(name, artifact.sha256)
        if found is not None:
            return found
        with self._content(artifact) as chunks:
            return self.cache.keep(name, artifact.sha256, artifact.size, chunks)

    def _small(self, artifact: ArtifactLink, suffix: str, most: int) -> bytes:
        """Return the bytes of an artifact that is read into memory before its signature is checked.

        Raises BrokenArtifact if it would have more than ``most`` bytes.
        """
        if artifact.size > most:
            raise BrokenArtifact(
                f"{artifact.sha256}{suffix} would have {artifact.size} bytes, and none has more "
                f"than {most}; {self.where} is damaged, or not honest"
            )
        return self.fetch(artifact, suffix).read_bytes()


def _must_be_of(manifest: Manifest, best: Best, what: str) -> None:
    """Raise BrokenArtifact if the manifest is not that of the best.

    A signature alone does not show that: a source may answer with the manifest of another library,
    which is rightly signed, too.
    """
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

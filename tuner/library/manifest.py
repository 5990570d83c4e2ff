"""The description of a library, and reading it after checking its signature."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import templates
from db.results import signed
from templates.errors import TemplateError, first_refused
from templates.limits import DeviceLimits
from templates.template import threads_of
from templates.workload import Workload
from tuner.errors import BrokenArtifact
from tuner.library.trust import Trusted

VERSION = 2
"""The only version of manifests that is read."""
MOST_BYTES = 1 << 20
"""Limit for the size of a manifest, which usually has a few thousand bytes."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Limits(_Strict):
    vector_bytes: Annotated[int, Field(ge=0, le=1 << 16)]


class Device(_Strict):
    kind: Literal["cpu", "cuda"]
    name: str
    limits: Limits


class File(_Strict):
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0, lt=1 << 63)]


class Manifest(_Strict):
    """The fields of a manifest that are read here.

    ``all`` is the manifest as written, with every field. ``threads`` is the number of CPU threads
    that the library runs on, None on a GPU. ``signer`` is the public key that it is signed by.
    """

    workload_key: str
    template: str
    device: Device
    library: File
    source: File
    record: File
    workload: Workload
    threads: Annotated[int, Field(ge=1, le=1 << 16)] | None
    signer: str
    all: dict[str, Any]

    @classmethod
    def described(cls, described: dict[str, Any], signer: str) -> Self:
        """Return the manifest with these fields, signed by ``signer``.

        Raises LookupError, TypeError, AttributeError, ValueError, RecursionError or TemplateError
        if the fields are damaged.
        """
        workload = templates.parse_key(described["workload_key"])
        fields = described | {"signer": signer, "all": described, "workload": workload}
        if "threads" not in fields:  # written by an earlier release
            limits = DeviceLimits.from_json(described["device"]["limits"])
            fields["threads"] = threads_of(described["config"], limits)
        return cls.model_validate(fields)


def verified(
    content: bytes, signature: bytes, trusted: Callable[[str], Trusted], what: str
) -> Manifest:
    """Return the manifest in ``content``, once its signature is found to be valid and trusted.

    Nothing in ``content`` is parsed before that. ``trusted`` is called with the signer's public key
    and returns the keys that are trusted. ``what`` names the library in messages.

    Raises UntrustedSigner if the key is not trusted; BrokenArtifact if the signature is not valid
    for these bytes, or the manifest is damaged or of another version.
    """
    try:
        found = signed.parse(signature)
        found.check(content)
    except signed.BadSignature as error:
        raise BrokenArtifact(
            f"the signature of {what} {error}; fetch it again, or tune the workload again"
        ) from error
    trusted(found.public_key).check(found.public_key, what)
    try:
        described = json.loads(content)
        version = described["manifest_version"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _damaged(what, error) from error
    if version != VERSION:
        said = version if isinstance(version, int) else "that is no number"
        raise BrokenArtifact(
            f"the manifest of {what} is of a version {said}, and this program reads version "
            f"{VERSION}; install the convtune that wrote it"
        )
    try:
        return Manifest.described(described, found.public_key)
    except (
        LookupError, TypeError, AttributeError, ValueError, RecursionError, TemplateError,
    ) as error:  # fmt: skip
        raise _damaged(what, error) from error


def _damaged(what: str, error: Exception) -> BrokenArtifact:
    why = f"{type(error).__name__}: {error}"[:200]
    if isinstance(error, ValidationError):
        why = ": ".join(first_refused(error))[:200]
    return BrokenArtifact(f"the manifest of {what} is damaged: {why}")

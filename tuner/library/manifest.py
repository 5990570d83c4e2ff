"""What a library's manifest says, once its signature has been checked."""

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
MOST_BYTES = 1 << 20
"""A manifest has a few thousand."""


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
    """The parts that are read here; ``all`` has every field. ``threads`` is how many of a CPU the
    library runs on. ``signer`` is the public key by which it is signed."""

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
        """Of its fields. Raises what damaged ones lead to."""
        workload = templates.parse_key(described["workload_key"])
        fields = described | {"signer": signer, "all": described, "workload": workload}
        if "threads" not in fields:  # of an earlier release
            limits = DeviceLimits.from_json(described["device"]["limits"])
            fields["threads"] = threads_of(described["config"], limits)
        return cls.model_validate(fields)


def verified(
    content: bytes, signature: bytes, trusted: Callable[[str], Trusted], what: str
) -> Manifest:
    """The manifest of these bytes; nothing of it is read before the signature is found to be over
    them and by a key among ``trusted``, which is given the signer's. ``what`` stands in messages.

    Raises UntrustedSigner, and BrokenArtifact if the signature does not hold or the manifest is
    damaged or of another version."""
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

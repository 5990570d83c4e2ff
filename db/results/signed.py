"""Signatures of manifests: which bytes are signed, the format of a signature, and its check.

This module uses no table and no SQL, because the worker that signs, the storage and service that
keep signatures, and the client that checks them all use it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "ed25519"
DOMAIN = b"convtune signed manifest, version 1\0"
"""These bytes are signed before the manifest's. So a signature of a manifest can't be passed off as
one that the same key made for another purpose, nor the other way round."""
MOST_BYTES = 1024
"""The most bytes that are read of a signature file. A valid one has 352."""

_DIGITS = {"manifest": 64, "public_key": 64, "signature": 128}


class BadSignature(Exception):
    """The signature is invalid. The message is a predicate, to which the caller adds the subject:
    "is over another manifest"."""


@dataclass(frozen=True)
class Signature:
    """A signature of a manifest. All three fields are lower-case hexadecimal: the SHA-256 of the
    manifest, the 32 bytes of an Ed25519 public key, and the 64 bytes of that key's signature."""

    manifest: str
    public_key: str
    signature: str

    def to_json(self) -> bytes:
        """Return the bytes of the signature file. A signature has exactly one such form."""
        return json.dumps({"algorithm": ALGORITHM, **self.__dict__}, indent=1).encode()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public_key)

    def check(self, manifest: bytes) -> None:
        """Raise BadSignature unless this is a valid signature of these bytes."""
        if hashlib.sha256(manifest).hexdigest() != self.manifest:
            raise BadSignature("is over another manifest")
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # 0.1 s, rarely needed
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )

        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), DOMAIN + manifest)
        except (InvalidSignature, ValueError) as error:
            raise BadSignature(f"was not made by the key it names, {self.fingerprint}") from error


def sign(key: Ed25519PrivateKey, manifest: bytes) -> Signature:
    """Return the signature of a manifest's bytes by this key."""
    return Signature(
        manifest=hashlib.sha256(manifest).hexdigest(),
        public_key=key.public_key().public_bytes_raw().hex(),
        signature=key.sign(DOMAIN + manifest).hex(),
    )


def parse(content: bytes) -> Signature:
    """Return the signature that a file holds; :meth:`Signature.check` verifies it.

    Raises BadSignature unless the bytes are exactly those of :meth:`Signature.to_json`, so that no
    byte can be changed unnoticed."""
    try:
        fields = json.loads(content[: MOST_BYTES + 1])
        found = Signature(**{name: fields[name] for name in _DIGITS})
        whole = all(is_hex(fields[name], digits) for name, digits in _DIGITS.items())
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadSignature("can't be read") from error
    if not whole or found.to_json() != content:
        raise BadSignature("does not have the exact form of a signature file")
    return found


def fingerprint(public_key: str) -> str:
    """Return the fingerprint of a public key (in hexadecimal), in the form that SSH uses."""
    digest = hashlib.sha256(bytes.fromhex(public_key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def is_hex(value: object, digits: int) -> bool:
    """Return whether the value is a string of exactly so many lower-case hexadecimal digits."""
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None

"""This machine's own key, which signs everything that is tuned here."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tuner import config
from tuner.errors import BadSigningKey

FILE = "signing_key.pem"
MOST_BYTES = 16_384
"""Limit for the bytes that are read from a key's file."""
OTHERS = 0o077
"""Mode bits that let others than the owner use a file."""


def default_path() -> Path:
    """Return the path in TUNER_SIGNING_KEY, or that of the key in the user's configuration
    folder."""
    named = os.environ.get("TUNER_SIGNING_KEY")
    return Path(named) if named else config.folder() / FILE


def own_key(path: Path) -> Ed25519PrivateKey:
    """Return the key at ``path``. Make one if there is none.

    If several processes call this at once, one of them makes the key. Raises BadSigningKey if the
    key can't be read or made, is damaged, belongs to another user, or if others may read it or
    write to its folder.
    """
    try:
        if not path.exists():
            with config.locked(path.parent):
                if not path.exists():
                    config.write_atomically(path, _pem(Ed25519PrivateKey.generate()))
        return _read(path)
    except OSError as error:
        raise BadSigningKey(path, f"can't be read or made: {error}") from error


def own_public_key(path: Path) -> str | None:
    """Return the public half of the key at ``path``, as 64 hexadecimal digits; None if there is
    none.

    No key is made. Raises BadSigningKey if it can't be read, is damaged or unsafe.
    """
    try:
        return public_key_of(_read(path)) if path.exists() else None
    except OSError as error:
        raise BadSigningKey(path, f"can't be read: {error}") from error


def public_key_of(key: Ed25519PrivateKey) -> str:
    """Return the public half of a key, as 64 hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def _read(path: Path) -> Ed25519PrivateKey:
    """Return the key in the file. Raise BadSigningKey if it is unsafe or damaged."""
    # opening a pipe may block for ever, and the hint about chmod below must not name a device
    if not path.is_file():
        raise BadSigningKey(path, "it is no plain file")
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        mode = stat.S_IMODE(found.st_mode)
        if mode & OTHERS:
            raise BadSigningKey(
                path,
                f"others may use it, because its mode is {mode:04o}; if nobody did: "
                f"chmod 600 {path}",
            )
        for what, of in ((path, found), (path.parent, path.parent.stat())):
            if why := config.why_untrusted(of):
                raise BadSigningKey(path, f"{why} {what}")
        content = file.read(MOST_BYTES)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError if it is encrypted
        raise BadSigningKey(path, "it is no private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadSigningKey(path, "it is a key of another kind than Ed25519")
    return key


def _pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

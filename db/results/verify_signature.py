"""Verifying that the files of a best are those that its worker signed.

The chain runs from the signature over the manifest to library, source and record, whose hashes the
manifest names."""

import hashlib
import json
from typing import Any

from sqlalchemy import Connection, Row, select

from db.results import signed
from db.results.signers import is_registered
from db.sql.tables import artifacts, best_artifacts

NAMED = ("library", "source", "record")
"""The kinds of the files that a manifest names, each with its SHA-256 and its size in bytes."""


def signature_fault(connection: Connection, best_id: int, workload_key: str) -> str | None:
    """Return why clients would refuse to load the library of this best, as a sentence for users.
    Return None if its signature is valid for all its files and for this workload."""
    query = (
        select(best_artifacts.c.kind, artifacts.c.sha256, artifacts.c.size, artifacts.c.content)
        .join(artifacts, artifacts.c.sha256 == best_artifacts.c.sha256)
        .where(best_artifacts.c.best_id == best_id)
    )
    files = {row.kind: row for row in connection.execute(query)}
    if not {"signature", "manifest"} <= set(files):
        return "its signature or its manifest is missing"
    manifest = files["manifest"].content
    try:
        found = signed.parse(files["signature"].content)
        found.check(manifest)
    except signed.BadSignature as error:
        return f"its signature {error}"
    if not is_registered(connection, found.public_key):
        return f"it is signed by {found.fingerprint}, which no worker has registered"
    try:
        fields = json.loads(manifest)
        named = {kind: (fields[kind]["sha256"], fields[kind]["size"]) for kind in NAMED}
        key = fields["workload_key"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        return f"its manifest can't be read ({error!r})"
    for kind in NAMED:
        if not _is(files.get(kind), *named[kind]):
            return f"its {kind} is not the one that its signed manifest names"
    return None if key == workload_key else "its signed manifest is of another workload"


def signing_key(connection: Connection, best_id: int) -> str:
    """Return the public key that signed this best. `signature_fault` must find no fault in it."""
    query = (
        select(artifacts.c.content)
        .join(best_artifacts, best_artifacts.c.sha256 == artifacts.c.sha256)
        .where(best_artifacts.c.best_id == best_id, best_artifacts.c.kind == "signature")
    )
    return signed.parse(connection.execute(query).scalar_one()).public_key


def _is(file: Row[Any, Any, Any, Any] | None, sha256: str, size: int) -> bool:
    """Return whether the file exists under this hash and with this size, and its bytes have the
    hash."""
    if file is None or (file.sha256, file.size) != (sha256, size):
        return False
    return hashlib.sha256(file.content).hexdigest() == sha256

"""The JSON of a signer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from db.contract.job import Shown
from db.results.signed import fingerprint

_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
_EXAMPLE: dict[str, Any] = {
    "public_key": _KEY,
    "fingerprint": fingerprint(_KEY),
    "host": "gpu-host-1",
    "created_at": "2025-11-20T16:00:00Z",
}


class SignerView(Shown):
    """A public key whose private half a worker signs manifests with."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    public_key: str = Field(description="Ed25519, 64 hexadecimal digits")
    fingerprint: str = Field(
        description="for people to compare: the SHA-256 of the key, as SSH writes it"
    )
    host: str = Field(description="the first host that registered this key")
    created_at: datetime

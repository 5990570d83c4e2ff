"""Deciding whose signatures are trusted.

The trusted keys are those that a program names. If it names none, they are this machine's own key
and the keys that were pinned when a service was first met.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from db.results.signed import fingerprint, is_hex
from tuner.errors import NotAKey, UntrustedSigner
from tuner.library.pins import KEY_DIGITS, Pins
from tuner.library.signing_key import default_path, own_public_key

VARIABLE = "TUNER_SIGNERS"
"""Environment variable with the public keys that are trusted, separated by commas."""


@dataclass(frozen=True)
class Trusted:
    """A set of trusted public keys.

    ``keys`` are in hexadecimal. ``which`` says in a message which keys these are, ``way_out`` what
    to do if another key signed.
    """

    keys: frozenset[str]
    which: str
    way_out: str

    def check(self, public_key: str, what: str) -> None:
        """Raise UntrustedSigner unless the key is trusted; ``what`` names the signed file in the
        message."""
        if public_key not in self.keys:
            raise UntrustedSigner(
                f"{what} is signed by {fingerprint(public_key)}, which is not {self.which}; "
                f"{self.way_out}"
            )


def named_keys(signers: Collection[str] | None) -> frozenset[str] | None:
    """Return the keys in ``signers`` or, if that is None, those in TUNER_SIGNERS.

    Return None if neither names any. Raises NotAKey if one is not 64 hexadecimal digits.
    """
    if signers is None:
        text = os.environ.get(VARIABLE)
        if not text:
            return None
        signers = [each.strip() for each in text.split(",")]
    wrong = [each for each in signers if not is_hex(each, KEY_DIGITS)]
    if wrong:
        raise NotAKey(wrong[0], KEY_DIGITS)
    return frozenset(signers)


def by_name(keys: frozenset[str]) -> Trusted:
    """Return exactly these keys, which a program or TUNER_SIGNERS names, as the trusted ones."""
    way_out = "if you trust that key, name its 64 digits there, as GET /signers shows them"
    return Trusted(keys, f"among the keys that signers= or {VARIABLE} names", way_out)


def own(path: Path, others: frozenset[str] = frozenset()) -> Trusted:
    """Return the key in that file, if there is one, and ``others`` as the trusted ones.

    Raises BadSigningKey if the key can't be read or is unsafe.
    """
    key = own_public_key(path)
    return Trusted(
        others | ({key} if key else frozenset()),
        f"this machine's own key ({path})",
        "tune it again here, with --retune, or, if you trust that key, name its 64 digits in "
        f"{VARIABLE}",
    )


def served(url: str, pinned: frozenset[str]) -> Trusted:
    """Return the keys that were pinned for the service at ``url`` as the trusted ones."""
    return Trusted(
        pinned,
        f"among the keys pinned for {url}",
        f"ask who runs it whether that key is theirs, and then: tuner trust {url}",
    )


def this_machine() -> Trusted:
    """Return this machine's own key, and all keys that are pinned on it, as the trusted ones.

    Raises BadSigningKey, UnusableFile.
    """
    return Trusted(
        own(default_path()).keys | Pins().all(),
        "pinned on this machine, and not its own key either",
        "if you trust that key, give it in signers=, or pin those of its service: tuner trust URL",
    )

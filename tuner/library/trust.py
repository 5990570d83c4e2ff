"""Whose signatures are trusted: the keys that a program names, this machine's own, or those that
were pinned when a service was first met."""

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


@dataclass(frozen=True)
class Trusted:
    """Public keys in hexadecimal, which ones they are, and what to do where another key signed."""

    keys: frozenset[str]
    which: str
    way_out: str

    def check(self, public_key: str, what: str) -> None:
        """Raises UntrustedSigner unless it is one of them."""
        if public_key not in self.keys:
            raise UntrustedSigner(
                f"{what} is signed by {fingerprint(public_key)}, which is not {self.which}; "
                f"{self.way_out}"
            )


def named(signers: Collection[str] | None) -> frozenset[str] | None:
    """The keys that are given, else those of TUNER_SIGNERS; None if nobody names any. Raises
    NotAKey."""
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
    """Exactly those."""
    way_out = "if you trust that key, name its 64 digits there, as GET /signers shows them"
    return Trusted(keys, f"among the keys that signers= or {VARIABLE} names", way_out)


def own(path: Path, others: frozenset[str] = frozenset()) -> Trusted:
    """What was signed with the key there, or is by one of the others. Raises BadSigningKey."""
    key = own_public_key(path)
    return Trusted(
        others | ({key} if key else frozenset()),
        f"this machine's own key ({path})",
        "tune it again here, with --retune, or, if you trust that key, name its 64 digits in "
        f"{VARIABLE}",
    )


def served(url: str, pinned: frozenset[str]) -> Trusted:
    """The keys that were pinned for that service."""
    return Trusted(
        pinned,
        f"among the keys pinned for {url}",
        f"ask who runs it whether that key is theirs, and then: tuner trust {url}",
    )


def here() -> Trusted:
    """All that this machine knows: its own key, and those of every service that it met. Raises
    BadSigningKey, UnusableFile."""
    return Trusted(
        own(default_path()).keys | Pins().all(),
        "pinned on this machine, and not its own key either",
        "if you trust that key, give it in signers=, or pin those of its service: tuner trust URL",
    )

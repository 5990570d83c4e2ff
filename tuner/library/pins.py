"""Pins: the public keys that each service had when it was first met, as SSH keeps known_hosts.

They are in ``signers.json`` in the user's configuration folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection

from db.results.signed import is_hex
from tuner import config
from tuner.errors import UnusableFile

FILE = "signers.json"
KEY_DIGITS = 64
"""Hexadecimal digits of a public key."""


class Pins:
    """The pinned public keys, in hexadecimal, by the URL of their service.

    Every method raises UnusableFile if the file can't be read or written, or is damaged. A damaged
    file is never treated as empty, because then any key could be pinned anew.
    """

    def __init__(self) -> None:
        self.path = config.folder() / FILE

    def of(self, url: str) -> frozenset[str] | None:
        """Return the keys that are pinned for a service; None if it was never met."""
        return self._read().get(_name(url))

    def all(self) -> frozenset[str]:
        """Return the keys that are pinned for any service."""
        return frozenset[str]().union(*self._read().values())

    def meet(self, url: str, keys: Collection[str]) -> frozenset[str]:
        """Pin these keys if the service has no pinned keys yet. Return its pinned keys.

        They may be other keys, which another process has pinned first.
        """
        return self._write(url, keys, again=False)

    def replace(self, url: str, keys: Collection[str]) -> frozenset[str]:
        """Pin these keys, and no others, for the service. Return them."""
        return self._write(url, keys, again=True)

    def _write(self, url: str, keys: Collection[str], *, again: bool) -> frozenset[str]:
        """Pin the keys if the service has none yet or ``again`` is set. Return its pinned keys."""
        try:
            with config.locked(self.path.parent):
                pinned = self._read()
                if again or _name(url) not in pinned:
                    pinned[_name(url)] = frozenset(keys)
                    listed = {name: sorted(found) for name, found in sorted(pinned.items())}
                    config.write_atomically(
                        self.path, json.dumps(listed, indent=1).encode() + b"\n"
                    )
                return pinned[_name(url)]
        except OSError as error:
            raise UnusableFile(
                self.path,
                f"can't be written ({error.strerror or error}), and a service's keys are pinned "
                "there; name another folder in XDG_CONFIG_HOME, or the keys in TUNER_SIGNERS",
            ) from error

    def _read(self) -> dict[str, frozenset[str]]:
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                content = file.read()
            for what, of in ((self.path, found), (self.path.parent, self.path.parent.stat())):
                if why := config.why_untrusted(of):
                    raise UnusableFile(self.path, f"{why} {what}")
            listed = json.loads(content)
            if not all(_are_keys(keys) for keys in listed.values()):
                raise ValueError("it has something other than lists of keys")
            return {url: frozenset(keys) for url, keys in listed.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise UnusableFile(
                self.path,
                f"it does not say which keys are trusted ({error}); repair it, or remove it and "
                "compare the keys of each service anew",
            ) from error


def _are_keys(value: object) -> bool:
    return isinstance(value, list) and all(is_hex(key, KEY_DIGITS) for key in value)


def _name(url: str) -> str:
    return url.rstrip("/")

"""The messages between a worker and an RPC server, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tuner import __version__
from tuner.device.device import Device
from tuner.errors import ForeignServer
from tuner.measure.clock import PROTOCOLS
from tuner.measure.versions import TVM

FUNCTION = "convtune.{}"
"""Pattern of the names under which TVM registers the functions of :mod:`tuner.farm.session`."""

REQUIRED_VERSIONS = {"convtune": __version__, "apache-tvm": TVM, "timing_protocol": PROTOCOLS}
"""Versions that must be the same on worker and server, so that times are comparable."""

T = TypeVar("T")


@dataclass(frozen=True)
class Introduction:
    """A server's description of itself: its id, which no other server has, and its device."""

    server: str
    device: Device


def read_introduction(answer: dict[str, Any]) -> Introduction:
    """Check a server's versions and return its introduction.

    Raises ForeignServer if the versions are not this program's, or if the answer can't be read.
    """
    check_versions(read(dict[str, Any], answer.get("same", {})))
    return read(Introduction, answer)


def check_versions(theirs: dict[str, Any]) -> None:
    """Raise ForeignServer if a server's versions are not this program's."""
    for name, ours in REQUIRED_VERSIONS.items():
        if theirs.get(name) != ours:
            raise ForeignServer(
                f"the RPC server has {name} {theirs.get(name)}, this worker {ours}; "
                "install the same on both"
            )


def read(kind: type[T], value: Any) -> T:
    """Return the value as ``kind``. Raises ForeignServer if its fields are not ``kind``'s."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as refused:
        first = refused.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f"{where}: {first['msg']}"[:500]
        raise ForeignServer(f"the RPC server's answer is not as agreed ({why})") from None

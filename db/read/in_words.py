"""The figures of a best in words, which pages and the command line share."""

from collections.abc import Mapping, Sequence
from typing import Any

from db.contract.model import ModelTime
from db.results.fastest import faster_peer, own_time

_BEYOND = {
    "memory": ("in the cache", "faster than memory allows ({floor} µs): its data is in the cache"),
    "compute": (
        "fewer operations",
        "faster than the direct form's float32 operations allow ({floor} µs): "
        "it takes fewer of them, or tensor cores",
    ),
    "launch": ("as an empty kernel", "as fast as an empty kernel ({floor} µs)"),
}


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, as text for people: without an exponent from
    0.0001 to 1e7, and with commas between thousands. None is a dash."""
    if value is None:
        return "–"
    if abs(value) < 1 or abs(value) >= 1e7:
        return f"{value:.{digits}g}"
    whole = len(str(int(abs(value))))
    return f"{value:,.{max(digits - whole, 0)}f}"


def peer_in_words(
    timing: Mapping[str, Any], time_us: float, baselines: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return that a peer was faster, with both times. Return None if ours was the fastest."""
    peer = faster_peer(timing, time_us, baselines)
    if peer is None:
        return None
    ours = number(own_time(timing, time_us, peer))
    called = ", each called from Python" if peer.get("level") == "call" else ""
    return f"{peer['name']} was faster: {number(peer['time_us'])} µs against {ours} µs{called}"


def gain_in_words(time: ModelTime, layers: int) -> str | None:
    """Return how a model's bests compare with PyTorch, and over how many of its ``layers`` layers.
    Return None if no layer can be compared."""
    if time.gain is None:
        return None
    times = f"{number(time.tuned_us)} µs, PyTorch {number(time.baseline_us)} µs"
    over = "all" if time.layers == layers else f"{time.layers} of {layers}"
    return f"{number(time.gain)} × ({times}; over {over} layers)"


def noise_in_words(timing: Mapping[str, Any]) -> str | None:
    """Return that the machine was not quiet during the measurement, why, and what to do. Return
    None if it was quiet, or if that was not checked."""
    noise = timing.get("noise")
    if not noise or noise["quiet"]:
        return None
    return f"not a quiet machine: {noise['reason']}"


def roofline_in_words(roofline: Mapping[str, Any], device: str) -> str | None:
    """Return how near a time is to the least that the device allows. Return None if the device's
    peaks are unknown."""
    fraction, bound = roofline.get("fraction"), roofline.get("bound")
    if not fraction or bound not in _BEYOND:
        return None
    floor = number(roofline["floor_us"])
    if fraction > 1:
        return _BEYOND[bound][1].format(floor=floor)
    return f"{fraction:.0%} of what {device} allows, which is {floor} µs, bound by {bound}"


def roofline_in_brief(fraction: float | None, bound: str | None) -> str:
    """Return what `roofline_in_words` does, but in a few letters for the column of a table. A dash
    means that the device's peaks are unknown."""
    if not fraction:
        return "–"
    if fraction > 1 and bound in _BEYOND:
        return _BEYOND[bound][0]
    return f"{fraction:.0%}"

"""Deciding whether the machine was quiet enough for its times to be trusted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import psutil

from tuner.device.cpu_facts import threads
from tuner.measure.clock import STEADY, Sample, spread, summarise

BUSY = 0.15
"""Share of all processors that other processes may use on a quiet machine."""
NOISE_SECONDS, NOISE_SAMPLES, NOISE_SIZE = 0.3, 100, 4096
"""How long :func:`measure_noise` takes, its samples, and the elements of the arrays that it
multiplies."""
WAY_OUT = "end what else runs here, or tune again when it is quiet"


class OtherLoad:
    """Measures how busy other processes keep the processors, from its creation on."""

    def __init__(self) -> None:
        self._time, self._all, self._own = time.monotonic(), _busy(), _own()

    def load(self) -> float:
        """Return how many processors other processes have kept busy since, on average."""
        seconds = time.monotonic() - self._time
        elsewhere = (_busy() - self._all) - (_own() - self._own)
        return max(0.0, elsewhere) / max(seconds, 1e-3)


def noise(
    probe: Mapping[str, Any] | None, load: float, winner: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the facts about the machine's noise that are stored with a time.

    ``quiet`` says whether the machine was quiet. If it was not, ``reason`` says why and what to do;
    else it is None. ``spread`` and ``probe_spread`` are the 90th minus the 10th percentile of the
    winner's and of the probe's samples, as a share of the median; ``load`` is repeated;
    ``disturbed`` is the share of the winner's samples that were interrupted.

    ``probe`` is the summary of the empty program, a small fixed kernel that took part in every
    turn; None if there was none. ``load`` is how many processors other processes kept busy.
    ``winner`` is the summary of the subject that is judged.
    """
    found = {
        "spread": spread(winner),
        "probe_spread": 0.0 if probe is None else spread(probe),
        "load": load,
        "disturbed": winner.get("disturbed", 0.0),
    }
    reasons = []
    if load > BUSY * threads():
        reasons.append(f"other programs, or machines, kept {load:.1f} of {threads()} CPUs busy")
    if found["spread"] > STEADY:
        reasons.append(f"the samples are spread by {found['spread']:.0%} of their median")
    if found["probe_spread"] > STEADY:
        of_the_probe = f"spread by {found['probe_spread']:.0%} of their median"
        reasons.append(f"the samples of the empty program are {of_the_probe}")
    reason = f"{', '.join(reasons)}; {WAY_OUT}" if reasons else None
    return {"quiet": not reasons, **found, "reason": reason}


def measure_noise() -> dict[str, Any]:
    """Return the :func:`noise` of a third of a second in which this process runs only a small NumPy
    kernel."""
    others = OtherLoad()
    a = np.ones(NOISE_SIZE, np.float32)
    call = partial(np.multiply, a, a, a)
    samples = []
    for _ in range(NOISE_SAMPLES):
        start = time.perf_counter()
        for _ in range(50):
            call()
        samples.append(Sample((time.perf_counter() - start) / 50))
        time.sleep(NOISE_SECONDS / NOISE_SAMPLES)
    summary = summarise(samples, 50)
    return noise(None, others.load(), summary)


def _busy() -> float:
    """Return the seconds since boot in which processors were busy, all processors together."""
    times = psutil.cpu_times()._asdict()
    part_of_others = ("guest", "guest_nice")  # they are included in user and nice
    return float(
        sum(s for name, s in times.items() if name not in ("idle", "iowait", *part_of_others))
    )


def _own() -> float:
    """Return the processor seconds of this process and of its children, running or waited for."""
    process = psutil.Process()
    total = float(sum(process.cpu_times()[:4]))
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            total += sum(child.cpu_times()[:4])
    return total

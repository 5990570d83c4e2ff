"""From measured trials to the winner: the finalists' round and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog

from tuner.errors import ChildFailed, NothingWorked
from tuner.measure.builder import Builder
from tuner.measure.compile import Built
from tuner.measure.finals import EMPTY, Entry, Finals
from tuner.measure.measuring import Measuring
from tuner.plan import Config, Plan

log = structlog.get_logger()

CLOSE = 1.10
MOST = 8
DEFAULT = "default"
NAIVE = "naive"
PEERS = "peers"
NAIVE_MAX_FLOPS = {"cpu": 1e9, "cuda": 1e11}
"""Beyond these one call of the naive schedule takes a second."""


@dataclass(frozen=True)
class Winner:
    """The best configuration with its library as it lay on disk when it was checked last."""

    config: Config
    built: Built
    library: bytes
    timing: dict[str, Any]
    max_error: float
    baselines: list[dict[str, Any]]
    empty_us: float

    @property
    def time_us(self) -> float:
        """Warm median."""
        return float(self.timing["warm"]["median_us"])


def finalists(trials: Sequence[tuple[Config, float]]) -> list[Config]:
    """The configurations within 10 % of the fastest, at most eight, fastest first."""
    ranked = sorted(trials, key=lambda trial: trial[1])
    return [config for config, time in ranked[:MOST] if time <= CLOSE * ranked[0][1]]


def decide(
    plan: Plan,
    builder: Builder,
    runner: Measuring,
    folder: Path,
    chosen: Sequence[Config],
    beside: Mapping[str, Built] = MappingProxyType({}),
) -> Winner:
    """Measure the chosen again, interleaved with the default configuration, the naive schedule,
    the peers and what was built to stand beside them, in a fresh process. The fastest that is
    right once more, loaded from disk by another fresh process, wins.

    Raises NothingWorked where none of them can be built and run again.
    """
    configs = {f"finalist {n}": config for n, config in enumerate(chosen)}
    configs[DEFAULT] = plan.default()
    builds = _build(plan, builder, folder, configs)
    compared = builds | {name: built for name, built in beside.items() if built.status == "ok"}
    libraries = {name: built.order.library for name, built in compared.items()}
    finals = _round(runner, libraries)
    missing = {name: built.error or "" for name, built in beside.items() if built.status != "ok"}
    finals = replace(finals, dropped=finals.dropped | missing)
    contestants = [entry for name, entry in finals.entries.items() if name in configs]
    dropped = {name: reason for name, reason in finals.dropped.items() if name in configs}
    for best in sorted(contestants, key=_median):
        library = libraries[best.name]
        try:
            max_error = runner.verify(library)
        except ChildFailed as error:
            dropped[best.name] = str(error)
            continue
        return Winner(
            config=configs[best.name],
            built=builds[best.name],
            library=library.read_bytes(),
            timing=best.timing | {"empty_us": finals.empty_us, "clocks": finals.clocks},
            max_error=max_error,
            baselines=_baselines(finals, _median(best), plan.workload.max_error),
            empty_us=finals.empty_us,
        )
    reasons = "; ".join(f"{name}: {reason}" for name, reason in dropped.items())
    raise NothingWorked(f"no finalist was right in the last round ({reasons or 'none was built'})")


def _build(
    plan: Plan, builder: Builder, folder: Path, configs: dict[str, Config]
) -> dict[str, Built]:
    orders = {
        name: plan.order(config, folder / f"final-{name.replace(' ', '-')}.so")
        for name, config in configs.items()
    }
    orders[EMPTY] = plan.empty_order(folder / "final-empty.so")
    if plan.workload.flops <= NAIVE_MAX_FLOPS[plan.device.kind]:
        orders[NAIVE] = plan.naive_order(folder / "final-naive.so")
    futures = {name: builder.submit(order) for name, order in orders.items()}
    built = {name: future.result() for name, future in futures.items()}
    if built[EMPTY].status != "ok":
        raise NothingWorked(f"not even the empty program can be built: {built[EMPTY].error}")
    return {name: b for name, b in built.items() if b.status == "ok"}


def _round(runner: Measuring, libraries: dict[str, Path]) -> Finals:
    """What the runner finds right takes part: a stored trial says that its configuration was, and
    not that it is, and the round's process is not confined. A peer that takes the process down with
    it must not take the job."""
    looks = {name: runner.submit(path) for name, path in libraries.items() if name != EMPTY}
    faulty = {
        name: f"{measured.status}: {measured.error}"
        for name, look in looks.items()
        if (measured := look.result()).status != "ok"
    }
    sound = {name: path for name, path in libraries.items() if name not in faulty}
    try:
        finals = runner.finals(sound)
    except ChildFailed as error:
        log.warning("finals_without_peers", reason=str(error))
        left_out = {PEERS: f"left out: the round with them failed ({error})"}
        finals = runner.finals(sound, with_peers=False)
        finals = replace(finals, dropped=finals.dropped | left_out)
    return replace(finals, dropped=finals.dropped | faulty)


def _baselines(finals: Finals, time_us: float, allowed: float) -> list[dict[str, Any]]:
    """What the winner is compared with, fastest first, then what could not be timed. ``error``
    says why a row is no fair comparison: it failed, or it is wrong by more than is allowed."""
    timed = [
        {
            "name": entry.name,
            "time_us": _median(entry),
            "speedup": _median(entry) / time_us,
            "max_error": _finite(entry.max_error),
            "error": _wrong(entry.max_error, allowed),
        }
        for entry in sorted(finals.entries.values(), key=_median)
        if _is_compared(entry.name)
    ]
    failed = [
        {"name": name, "time_us": None, "speedup": None, "max_error": None, "error": reason}
        for name, reason in finals.dropped.items()
        if _is_compared(name)
    ]
    return timed + failed


def _is_compared(name: str) -> bool:
    return name != EMPTY and not name.startswith("finalist")


def _wrong(error: float | None, allowed: float) -> str | None:
    if error is None or error <= allowed:
        return None
    return f"wrong: error {error:.3g}, allowed {allowed:.3g}"


def _finite(error: float | None) -> float | None:
    """JSON has no NaN."""
    return error if error is not None and isfinite(error) else None


def _median(entry: Entry) -> float:
    return float(entry.timing["warm"]["median_us"])

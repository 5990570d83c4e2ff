"""From measured trials to the winner: the finalists' round and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog

from db.results.fastest import own_time
from tuner.build.builder import Builder
from tuner.build.compile import Built
from tuner.compare.comparison import Comparison, Entry
from tuner.compare.measuring import Measuring
from tuner.compare.stage import CALL, EMPTY, KERNEL
from tuner.errors import ChildFailed, NothingWorked
from tuner.job import artifact
from tuner.measure.versions import versions
from tuner.peers import DEVICE, groups
from tuner.plan.plan import Config, Plan
from tuner.process.stopping import result_of

log = structlog.get_logger()

DEFAULT = "default"
NAIVE = "naive"
PEERS = "peers"
NAIVE_MAX_FLOPS = {"cpu": 1e9, "cuda": 1e11}
"""Beyond these one call of the naive schedule takes a second."""


@dataclass(frozen=True)
class Winner:
    """The best configuration on so many threads of a CPU (None on a GPU), with its library as it
    lay on disk when it was checked last."""

    config: Config
    threads: int | None
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


@dataclass(frozen=True)
class _Rivals:
    """All that was built for a round, by name; ``configs`` are of those that may win."""

    configs: dict[str, Config]
    builds: dict[str, Built]
    round: Comparison

    def ranked(self) -> list[Entry]:
        """Those that may win, fastest first."""
        return sorted(
            (entry for name, entry in self.round.entries.items() if name in self.configs),
            key=lambda entry: entry.time_us,
        )


def decide(
    plan: Plan,
    builder: Builder,
    runner: Measuring,
    folder: Path,
    chosen: Sequence[Config],
    beside: Mapping[str, Built] = MappingProxyType({}),
) -> list[Winner]:
    """Measure the chosen again in one round, with the default configuration and the naive schedule
    as their rivals, and what was built to stand beside them. The fastest that is right once more,
    loaded from disk as its user would, wins. If it runs on several threads of a CPU, the fastest on
    one thread follows it.

    Raises NothingWorked if none of them can be built and run again.
    """
    rivals = _round(plan, builder, runner, folder, chosen, beside)
    dropped = {name: why for name, why in rivals.round.dropped.items() if name in rivals.configs}
    winners: list[Winner] = []
    for entry in rivals.ranked():
        threads = plan.threads(rivals.configs[entry.name])
        if winners and threads != 1:
            continue
        try:
            winners.append(_delivered(plan, runner, rivals, entry, with_peers=not winners))
        except ChildFailed as error:
            dropped[entry.name] = str(error)
            continue
        if threads in (1, None):
            break
    if not winners:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in dropped.items())
        raise NothingWorked(
            f"no finalist was right in the last round ({reasons or 'none was built'})"
        )
    return winners


def _round(
    plan: Plan,
    builder: Builder,
    runner: Measuring,
    folder: Path,
    chosen: Sequence[Config],
    beside: Mapping[str, Built],
) -> _Rivals:
    configs = {f"finalist {n}": config for n, config in enumerate(chosen)}
    configs[DEFAULT] = plan.default()
    naive = plan.naive()
    if naive and naive not in chosen and plan.workload.flops <= NAIVE_MAX_FLOPS[plan.device.kind]:
        configs[NAIVE] = naive
    builds = _build(plan, builder, folder, configs)
    compared = builds | {name: built for name, built in beside.items() if built.status == "ok"}
    libraries = {name: built.order.library for name, built in compared.items()}
    found = _measured(runner, libraries, configs, plan.device.kind)
    missing = {name: built.error or "" for name, built in beside.items() if built.status != "ok"}
    return _Rivals(configs, builds, replace(found, dropped=found.dropped | missing))


def _build(
    plan: Plan, builder: Builder, folder: Path, configs: dict[str, Config]
) -> dict[str, Built]:
    orders = {
        name: plan.order(config, folder / f"final-{name.replace(' ', '-')}.so")
        for name, config in configs.items()
    }
    orders[EMPTY] = plan.empty_order(folder / "final-empty.so")
    futures = {name: builder.submit(order) for name, order in orders.items()}
    built = {name: result_of(future) for name, future in futures.items()}
    if built[EMPTY].status != "ok":
        raise NothingWorked(f"not even the empty program can be built: {built[EMPTY].error}")
    return {name: b for name, b in built.items() if b.status == "ok"}


def _measured(
    runner: Measuring, libraries: dict[str, Path], configs: Mapping[str, Config], kind: str
) -> Comparison:
    """What the runner finds right takes part: a stored trial says that its configuration was, and
    not that it is, and the round's process is not confined. A GPU's peers are in that process; one
    that takes it down must not take the job."""
    looks = {name: runner.submit(path) for name, path in libraries.items() if name != EMPTY}
    faulty = {
        name: f"{measured.status}: {measured.error}"
        for name, look in looks.items()
        if (measured := result_of(look)).status != "ok"
    }
    sound = {name: path for name, path in libraries.items() if name not in faulty}
    inside = [group for group in groups(kind) if group == DEVICE]
    try:
        found = runner.compare(sound, list(configs), inside)
    except ChildFailed as error:
        if not inside:
            raise
        log.warning("compared_without_peers", reason=str(error))
        left_out = {PEERS: f"left out: the round with them failed ({error})"}
        found = runner.compare(sound, list(configs))
        found = replace(found, dropped=found.dropped | left_out)
    return replace(found, dropped=found.dropped | faulty)


def _delivered(
    plan: Plan, runner: Measuring, rivals: _Rivals, entry: Entry, *, with_peers: bool
) -> Winner:
    """The rival as a user has it. Raises ChildFailed if it is wrong or faulty there."""
    config, built = rivals.configs[entry.name], rivals.builds[entry.name]
    device, library = plan.device, built.order.library.read_bytes()
    described = artifact.manifest(
        plan.workload,
        device,
        config=config,
        template_version=plan.version(config),
        threads=plan.threads(config),
        versions=versions(device.kind),
        timing={},
        max_error=0.0,
        named=artifact.files(device.kind, library, built.source, {}),
    )
    outside = [group for group in groups(device.kind) if group != DEVICE] if with_peers else []
    delivered = runner.deliver(built.order.library, described, outside)
    kernel = delivered.entries.get(KERNEL, entry)
    call = delivered.entries.get(CALL)
    found = rivals.round
    timing: dict[str, Any] = {
        **entry.timing,
        **kernel.timing,
        "empty_us": found.empty_us,
        "clocks": found.clocks,
        "noise": _noise(found, entry, delivered),
        "finalists": [_finalist(rivals, each) for each in rivals.ranked()],
    }
    if call is not None:
        timing["call"] = call.timing["warm"]
    errors = [each.max_error for each in (kernel, call) if each is not None]
    return Winner(
        config=config,
        threads=plan.threads(config),
        built=built,
        library=library,
        timing=timing,
        max_error=max(error for error in errors if error is not None),
        baselines=_baselines(rivals, entry, delivered, timing, plan.workload.max_error),
        empty_us=found.empty_us,
    )


def _noise(found: Comparison, entry: Entry, delivered: Comparison) -> dict[str, Any]:
    """Of the round, or of the delivered kernel, whichever was less quiet."""
    looks = [found.noise(entry.name)]
    if KERNEL in delivered.entries:
        looks.append(delivered.noise(KERNEL))
    return next((look for look in looks if not look["quiet"]), looks[0])


def _finalist(rivals: _Rivals, entry: Entry) -> dict[str, Any]:
    warm = entry.timing["warm"]
    return {"name": entry.name, "config": rivals.configs[entry.name], **warm}


def _baselines(
    rivals: _Rivals,
    winner: Entry,
    delivered: Comparison,
    timing: Mapping[str, Any],
    allowed: float,
) -> list[dict[str, Any]]:
    """What the winner is compared with, fastest first, then what could not be timed. ``error``
    says why a row is no fair comparison: it failed, or it is wrong by more than is allowed. A row
    is compared with the winner's time of the same ``level`` and of the same round."""
    rows = []
    kernel_us = float(timing["warm"]["median_us"])
    for entry in rivals.round.entries.values():
        if _is_compared(entry.name):
            rows.append(_row(entry, winner.time_us, allowed))
    for entry in delivered.entries.values():
        if entry.name not in (KERNEL, CALL):
            rows.append(_row(entry, own_time(timing, kernel_us, {"level": entry.level}), allowed))
    failed = [
        {
            "name": name,
            "time_us": None,
            "speedup": None,
            "max_error": None,
            "error": reason,
            "level": None,
        }
        for name, reason in (rivals.round.dropped | delivered.dropped).items()
        if _is_compared(name) and name != CALL
    ]
    return sorted(rows, key=lambda row: float(row["time_us"])) + failed


def _row(entry: Entry, own_us: float, allowed: float) -> dict[str, Any]:
    return {
        "name": entry.name,
        "time_us": entry.time_us,
        "speedup": entry.time_us / own_us,
        "max_error": _finite(entry.max_error),
        "error": _wrong(entry.max_error, allowed),
        "level": entry.level,
    }


def _is_compared(name: str) -> bool:
    return name != EMPTY and not name.startswith("finalist")


def _wrong(error: float | None, allowed: float) -> str | None:
    if error is None or error <= allowed:
        return None
    return f"wrong: error {error:.3g}, allowed {allowed:.3g}"


def _finite(error: float | None) -> float | None:
    """JSON has no NaN."""
    return error if error is not None and isfinite(error) else None

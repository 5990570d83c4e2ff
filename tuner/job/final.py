"""The last round of a job: build the finalists, compare them, choose and describe the winners."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog

from db.contract.order import Baselines
from db.results.peer_times import PeerTimes
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, Built
from tuner.compare.comparison import Comparison, Entry
from tuner.compare.measuring import Delivered, Measuring
from tuner.compare.stage import CALL, EMPTY, KERNEL, subject_name
from tuner.errors import ChildFailed, NothingWorked
from tuner.job import artifact
from tuner.job.baselines import Row, baseline_rows, reusable_rows
from tuner.job.fastest_builds import FastestBuilds
from tuner.measure.versions import versions
from tuner.peers import groups, shares_kernel_process
from tuner.plan.plan import Config, Plan
from tuner.process.stopping import wait_for

log = structlog.get_logger()

DEFAULT = "default"
NAIVE = "naive"
PEERS = "peers"
NAIVE_MAX_FLOPS = {"cpu": 1e9, "cuda": 1e11}
"""The naive schedule is left out above these: one call would take more than a second."""
NAIVE_MAX_TAPS = {"cpu": math.inf, "cuda": 1e5}
"""The naive schedule is left out if one output is a sum of more terms. A GPU's thread adds them one
after the other, some 2 µs each on an H200, and the check takes eleven calls. A gradient of a weight
has millions of terms."""


@dataclass(frozen=True)
class Winner:
    """The best configuration for a number of CPU threads (None on a GPU).

    ``library`` has the bytes that were on disk at the last check. ``empty_us`` is the time of an
    empty kernel in the same round.
    """

    config: Config
    threads: int | None
    built: Built
    library: bytes
    timing: dict[str, Any]
    max_error: float
    baselines: list[Row]
    empty_us: float

    @property
    def time_us(self) -> float:
        """The warm median, in µs."""
        return float(self.timing["warm"]["median_us"])


@dataclass(frozen=True)
class Decision:
    """The result of the last round: the winners, the job's best first, and times of peers.

    ``peers`` are the times of peers that later jobs may reuse. It is empty if no peers were timed,
    if the machine was not quiet, or if a peer failed for a reason that may pass.
    """

    winners: list[Winner]
    peers: list[Row]


@dataclass(frozen=True)
class _FinalRound:
    """The last round. ``configs`` may win; ``builds`` are all the builds that succeeded."""

    configs: dict[str, Config]
    builds: dict[str, Built]
    comparison: Comparison

    def ranked(self) -> list[Entry]:
        """Return the entries that may win, fastest first."""
        return self.comparison.ranked(self.configs)


def start_known_builds(
    plan: Plan, builder: Builder, folder: Path, *, naive: bool
) -> dict[str, Future[Built]]:
    """Start the builds of the last round that do not depend on the search, and return them.

    These are the default configuration, the empty kernel and, if ``naive`` and it is not too slow,
    the naive schedule.
    """
    configs = _default_and_naive(plan, plan.naive() if naive else None)
    return {name: builder.submit(order) for name, order in _orders(plan, configs, folder).items()}


def run_final_round(
    plan: Plan,
    builder: Builder,
    runner: Measuring,
    folder: Path,
    finalists: Sequence[Config],
    baseline_builds: Mapping[str, Built] = MappingProxyType({}),
    baselines: Baselines = "all",
    *,
    known_peer_times: PeerTimes | None = None,
    naive: bool = True,
    fastest: FastestBuilds | None = None,
    started_builds: Mapping[str, Future[Built]] = MappingProxyType({}),
) -> Decision:
    """Run the last round and choose the winner.

    The round measures again the ``finalists``, the default configuration and, unless ``naive`` is
    false, the naive schedule, together with the peers that ``baselines`` names and the builds in
    ``baseline_builds``. The winner is the fastest configuration that is right again when its
    library is loaded from disk, as a user loads it. On a CPU a second winner follows: the fastest
    on one thread if the first uses several, else the fastest on several. The two are timed once
    more as they are delivered, and the faster one comes first.

    Builds in ``fastest`` and ``started_builds``, of :func:`start_known_builds`, are not built
    again. If ``known_peer_times`` has the times of an earlier job, peers are not timed again.
    Raises NothingWorked if no finalist can be built and run again.
    """
    wanted = groups(plan.device.kind, baselines) if known_peer_times is None else ()
    inside = [group for group in wanted if shares_kernel_process(group, plan.device.kind)]
    configs = _configs_by_name(plan, finalists, plan.naive() if naive else None)
    orders = _orders(plan, configs, folder)
    reused = _reused_builds(orders, configs, fastest, started_builds)
    builds = reused | _build(builder, orders, started_builds, reused)
    found = _check_and_compare(runner, builds, baseline_builds, configs, inside, reused)
    final = _FinalRound(configs, builds, found)
    dropped = {name: why for name, why in final.comparison.dropped.items() if name in final.configs}
    ranked = final.ranked()
    while ranked:
        to_deliver = _entries_to_deliver(plan, final, ranked)
        try:
            delivered = runner.deliver(
                {entry.name: _delivery_of(plan, final, entry) for entry in to_deliver},
                [group for group in wanted if group not in inside],
            )
            wrong = {
                e.name: delivered.dropped[e.name] for e in to_deliver if e.name in delivered.dropped
            }
        except ChildFailed as error:
            wrong = {to_deliver[0].name: str(error)}
        if not wrong:
            winners = _fastest_first(
                [
                    _winner(plan, final, entry, to_deliver, delivered, known_peer_times)
                    for entry in to_deliver
                ]
            )
            return Decision(
                winners, _reusable_peer_rows(final, winners[0], baseline_builds) if wanted else []
            )
        dropped |= wrong
        ranked = [entry for entry in ranked if entry.name not in wrong]
    reasons = "; ".join(f"{name}: {reason}" for name, reason in dropped.items())
    raise NothingWorked(f"no finalist was right in the last round ({reasons or 'none was built'})")


def _reusable_peer_rows(
    final: _FinalRound, winner: Winner, baseline_builds: Collection[str]
) -> list[Row]:
    """Return the winner's rows of peers to keep for later jobs; none if the round was noisy."""
    if not winner.timing["noise"]["quiet"]:
        return []
    return reusable_rows(winner.baselines, {DEFAULT, NAIVE, *final.configs, *baseline_builds})


def _entries_to_deliver(plan: Plan, final: _FinalRound, ranked: Sequence[Entry]) -> list[Entry]:
    """Return the fastest entry and, on a CPU, the fastest of the other kind.

    The two kinds are configurations on one thread and on several.
    """
    fastest, *others = ranked

    def on_one(entry: Entry) -> bool | None:
        threads = plan.threads(final.configs[entry.name])
        return None if threads is None else threads == 1

    fastest_kind = on_one(fastest)
    return [fastest, *[each for each in others if on_one(each) not in (fastest_kind, None)][:1]]


def _fastest_first(winners: list[Winner]) -> list[Winner]:
    """Sort the winners, fastest first; of two equal times, the one on fewer threads comes first."""
    return sorted(winners, key=lambda winner: (winner.time_us, winner.threads or 0))


def _default_and_naive(plan: Plan, naive: Config | None) -> dict[str, Config]:
    """Return the default configuration, and the naive one if given and not too slow, by name."""
    found = {DEFAULT: plan.default()}
    workload, kind = plan.workload, plan.device.kind
    few = workload.flops <= NAIVE_MAX_FLOPS[kind] and workload.taps <= NAIVE_MAX_TAPS[kind]
    if naive and few:
        found[NAIVE] = naive
    return found


def _configs_by_name(
    plan: Plan, finalists: Sequence[Config], naive: Config | None
) -> dict[str, Config]:
    """Return all configurations that may win, by their names in the round."""
    configs = {f"finalist {n}": config for n, config in enumerate(finalists)}
    return configs | {
        name: config
        for name, config in _default_and_naive(plan, naive).items()
        if name == DEFAULT or config not in finalists
    }


def _reused_builds(
    orders: Mapping[str, BuildOrder],
    configs: Mapping[str, Config],
    fastest: FastestBuilds | None,
    started_builds: Collection[str],
) -> dict[str, Built]:
    """Return the builds that the search has kept, by their names in the round."""
    if fastest is None:
        return {}
    found = {
        name: fastest.take(config, orders[name].library)
        for name, config in configs.items()
        if name not in started_builds
    }
    return {name: built for name, built in found.items() if built is not None}


def _build(
    builder: Builder,
    orders: Mapping[str, BuildOrder],
    started_builds: Mapping[str, Future[Built]],
    reused: Collection[str],
) -> dict[str, Built]:
    futures = {
        name: started_builds[name] if name in started_builds else builder.submit(order)
        for name, order in orders.items()
        if name not in reused
    }
    built = {name: wait_for(future) for name, future in futures.items()}
    if built[EMPTY].status != "ok":
        raise NothingWorked(f"not even the empty program can be built: {built[EMPTY].error}")
    return {name: b for name, b in built.items() if b.status == "ok"}


def _orders(plan: Plan, configs: Mapping[str, Config], folder: Path) -> dict[str, BuildOrder]:
    orders = {
        name: plan.order(config, folder / f"final-{name.replace(' ', '-')}.so")
        for name, config in configs.items()
    }
    orders[EMPTY] = plan.empty_order(folder / "final-empty.so")
    return orders


def _check_and_compare(
    runner: Measuring,
    builds: Mapping[str, Built],
    baseline_builds: Mapping[str, Built],
    configs: Mapping[str, Config],
    inside: Sequence[str],
    reused: Collection[str],
) -> Comparison:
    """Check the libraries and run the round of those that are right.

    Libraries that were ``reused`` from the search have been checked by it. All others are checked
    first, in a confined process: the round's own process is not confined, and a stored trial only
    says that its configuration was right once. The groups of peers ``inside`` run in the round's
    process. If one of them ends that process, the round is repeated without peers.
    """
    missing = {
        name: built.error or "" for name, built in baseline_builds.items() if built.status != "ok"
    }
    libraries = {
        name: built.order.library
        for name, built in {**builds, **baseline_builds}.items()
        if name not in missing
    }
    unknown = libraries.keys() - reused - {EMPTY}
    looks = {name: runner.submit(libraries[name]) for name in sorted(unknown)}
    faulty = {
        name: f"{measured.status}: {measured.error}"
        for name, look in looks.items()
        if (measured := wait_for(look)).status != "ok"
    }
    sound = {name: path for name, path in libraries.items() if name not in faulty}
    try:
        found = runner.compare(sound, list(configs), inside)
    except ChildFailed as error:
        if not inside:
            raise
        log.warning("compared_without_peers", reason=str(error))
        left_out = {PEERS: f"left out: the round with them failed ({error})"}
        found = runner.compare(sound, list(configs))
        found = replace(found, dropped=found.dropped | left_out)
    return replace(found, dropped=found.dropped | faulty | missing)


def _delivery_of(plan: Plan, final: _FinalRound, entry: Entry) -> Delivered:
    """Return an entry's library with its manifest, which has no times yet."""
    config, built = final.configs[entry.name], final.builds[entry.name]
    device, library = plan.device, built.order.library
    described = artifact.manifest(
        plan.workload,
        device,
        config=config,
        template_version=plan.version(config),
        threads=plan.threads(config),
        versions=versions(device.kind),
        timing={},
        max_error=0.0,
        named=artifact.files(device.kind, library.read_bytes(), built.source, {}),
        workspace=built.workspace,
    )
    return Delivered(library, described)


def _winner(
    plan: Plan,
    final: _FinalRound,
    entry: Entry,
    to_deliver: Sequence[Entry],
    delivered: Comparison,
    known_peer_times: PeerTimes | None,
) -> Winner:
    """Return ``entry`` as a winner, by the round in which all ``to_deliver`` were delivered."""
    config, built = final.configs[entry.name], final.builds[entry.name]
    kernel = delivered.entries.get(subject_name(entry.name, KERNEL), entry)
    call = delivered.entries.get(subject_name(entry.name, CALL))
    timing: dict[str, Any] = {
        **entry.timing,
        **kernel.timing,
        "empty_us": final.comparison.empty_us,
        "clocks": final.comparison.clocks,
        "noise": _noise(final.comparison, entry, delivered),
        "finalists": [_finalist(final, each) for each in final.ranked()],
    }
    if call is not None:
        timing["call"] = call.timing["warm"]
    ours = {subject_name(each.name, level) for each in to_deliver for level in (KERNEL, CALL)}
    return Winner(
        config=config,
        threads=plan.threads(config),
        built=built,
        library=built.order.library.read_bytes(),
        timing=timing,
        max_error=max(
            each.max_error
            for each in (kernel, call)
            if each is not None and each.max_error is not None
        ),
        baselines=baseline_rows(
            final.comparison,
            entry,
            _without(delivered, ours),
            timing,
            plan.workload.max_error,
            known_peer_times,
        ),
        empty_us=final.comparison.empty_us,
    )


def _without(found: Comparison, names: Collection[str]) -> Comparison:
    """Return the round without our libraries' ``names``, so that only its peers are left."""
    return replace(
        found,
        entries={name: entry for name, entry in found.entries.items() if name not in names},
        dropped={name: why for name, why in found.dropped.items() if name not in names},
    )


def _noise(found: Comparison, entry: Entry, delivered: Comparison) -> dict[str, Any]:
    """Return the noise of the round, or of the delivered kernel if only that was noisy."""
    looks = [found.noise(entry.name)]
    if subject_name(entry.name, KERNEL) in delivered.entries:
        looks.append(delivered.noise(subject_name(entry.name, KERNEL)))
    return next((look for look in looks if not look["quiet"]), looks[0])


def _finalist(final: _FinalRound, entry: Entry) -> dict[str, Any]:
    warm = entry.timing["warm"]
    return {"name": entry.name, "config": final.configs[entry.name], **warm}

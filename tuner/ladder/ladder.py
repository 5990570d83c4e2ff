"""Climbing the ladder of an operator: its rungs are built, checked and timed on a device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import structlog
from sqlalchemy.engine import Engine

import templates
from db.fleet import devices
from db.results import artifacts, ladders
from db.results import best as bests
from db.results.ladders import NewLadder
from templates.rung import Rung
from templates.workload import Workload
from tuner.build.builder import Builder
from tuner.build.compile import EMPTY as EMPTY_PROGRAM
from tuner.build.compile import EMPTY_WORKLOAD, BuildOrder, Built
from tuner.compare.comparison import SETTLE_SECONDS, Comparison
from tuner.compare.runner import Runner
from tuner.compare.stage import EMPTY
from tuner.device.device import Device
from tuner.errors import ChildFailed, NothingWorked, UnknownDocument
from tuner.job.pipeline import best_of
from tuner.ladder.table import BEST, Ladder, same_programs, table
from tuner.measure.versions import versions
from tuner.peers import groups
from tuner.plan.plan import Plan
from tuner.process.stopping import wait_for
from tuner.search import DEFAULT
from tuner.settings import Settings

log = structlog.get_logger()

RUNG_SECONDS = 120.0
"""Limit for checking and timing one library alone."""
MOST_STEPS = {"cpu": 1e10, "cuda": 2e11}
"""The most multiply-adds of a call, by kind of device. A rung with more is left out, because a
plain loop would take many seconds."""


def rungs_of(operator: str, document: str | None = None) -> tuple[Rung, ...]:
    """Return the rungs of an operator, or those of one of its documents. Raises UnknownDocument."""
    rungs = templates.operator(operator).rungs
    known = list(dict.fromkeys(rung.document.number for rung in rungs))
    if document is not None and document not in known:
        raise UnknownDocument(operator, document, known)
    return tuple(rung for rung in rungs if document in (None, rung.document.number))


def climb(
    workload: Workload,
    device: Device,
    builder: Builder,
    rungs: Sequence[Rung],
    best: bytes | None = None,
    seed: int = 0,
    settle_seconds: float = SETTLE_SECONDS,
) -> Ladder:
    """Build, check and time the rungs in one round, and return them as a table.

    The round also has the installed peers, the empty program and, if it is given, the tuned best:
    ``best`` has the bytes of its library. A rung with trials is the best configuration of a search
    with ``seed``. ``settle_seconds`` is as for :func:`tuner.compare.comparison.compare`.

    The documents' workloads are plain. Raises NothingWorked if this one is not, or if not even the
    empty program can be built.
    """
    if not workload.is_plain:
        raise NothingWorked(
            "a ladder's rungs compute no gradient, add no bias and no residual, have no "
            "activation, know only the documents' padding and layouts, and need N at most M and an "
            "odd K; leave out the fields that go beyond that"
        )
    left_out = _left_out(workload, device, rungs)
    with builder.folder("convtune-ladder-") as folder:
        built = _build(workload, device, builder, rungs, left_out, folder)
        if built[EMPTY].status != "ok":
            raise NothingWorked(f"not even the empty program can be built: {built[EMPTY].error}")
        with Runner(workload.key, device, seed, RUNG_SECONDS, settle_seconds) as runner:
            chosen: dict[str, str] = {}
            for rung in rungs:
                if rung.trials and rung.name not in left_out:
                    plan = Plan(workload, device, DEFAULT, seed, [rung.template()])
                    best_built, chosen[rung.name] = _search(rung, plan, builder, runner, folder)
                    built |= best_built
            libraries = {name: b.order.library for name, b in built.items() if b.status == "ok"}
            if best is not None:
                libraries[BEST] = folder / "best.so"
                libraries[BEST].write_bytes(best)
            found = _measure(runner, libraries, device.kind)
        same = same_programs(rungs, built)
    failed = {name: f"{b.status}: {b.error}" for name, b in built.items() if b.status != "ok"}
    notes = same | chosen | left_out | failed | found.dropped
    return table(workload, device, rungs, found, notes, best is not None)


def climb_and_store(
    engine: Engine, device: Device, settings: Settings, workload: Workload, document: str | None
) -> Ladder:
    """Climb the ladder, and time with it the database's best for the workload on this device.

    Store the table in the database, and return it. Raises UnknownDocument, NothingWorked.
    """
    rungs = rungs_of(workload.operator, document)
    device_id = devices.upsert_device(engine, device.fingerprint()).id
    found = bests.lookup(engine, workload.key, device=device_id)
    stored = found[0].artifacts.get("library") if found else None
    library = artifacts.get(engine, stored).content if stored else None
    with Builder(settings.build_workers, settings.build_seconds, settings.build_cache) as builder:
        climbed = climb(
            workload, device, builder, rungs, library, settle_seconds=settings.settle_seconds
        )
    new = NewLadder(
        operator=workload.operator,
        workload_key=workload.key,
        workload=workload.model_dump(),
        device_id=device_id,
        rows=climbed.rows_json(),
        documents=climbed.documents_json(),
        clocks=climbed.clocks,
        versions=versions(device.kind),
    )
    ladders.record(engine, new)
    return climbed


def _left_out(workload: Workload, device: Device, rungs: Sequence[Rung]) -> dict[str, str]:
    """Return the rungs that are not built, with the reasons."""
    reasons = {}
    for rung in rungs:
        if rung.steps(workload) > MOST_STEPS[device.kind]:
            reasons[rung.name] = (
                f"left out: {rung.steps(workload):.1e} multiply-adds a call are too many"
            )
        elif rung.trials and not rung.template().applies(workload, device.limits):
            reasons[rung.name] = "left out: its template does not serve this workload here"
    return reasons


def _build(
    workload: Workload,
    device: Device,
    builder: Builder,
    rungs: Sequence[Rung],
    left_out: dict[str, str],
    folder: Path,
) -> dict[str, Built]:
    """Build the empty program and the rungs without trials. Return the results by name."""
    orders = {EMPTY: (EMPTY_WORKLOAD.key, EMPTY_PROGRAM)}
    orders |= {
        r.name: (workload.key, r.program) for r in rungs if r.name not in left_out and not r.trials
    }
    futures: dict[str, Future[Built]] = {
        name: builder.submit(BuildOrder(key, program, None, device.target, folder / f"{number}.so"))
        for number, (name, (key, program)) in enumerate(orders.items())
    }
    return {name: wait_for(future) for name, future in futures.items()}


def _search(
    rung: Rung, plan: Plan, builder: Builder, runner: Runner, folder: Path
) -> tuple[dict[str, Built], str]:
    """Search the space of the rung's template, and build the best configuration.

    Return the build by the rung's name, empty if no trial worked, and a note about the search.
    """
    inside = folder / rung.name
    inside.mkdir()
    config, tried = best_of(plan, builder, runner, inside, rung.trials)
    if config is None:
        return {}, f"none of {tried} trials worked"
    built = wait_for(builder.submit(plan.order(config, inside / "best.so")))
    knobs = {name: value for name, value in config.items() if name != "template"}
    return {rung.name: built}, f"best of {tried} trials: {json.dumps(knobs)}"


def _measure(runner: Runner, libraries: dict[str, Path], kind: str) -> Comparison:
    """Return a round of the libraries and all peers.

    If a process of the round crashes, each library is measured alone, and the round is repeated
    without the libraries that fail. If no library fails, a peer is to blame, and the round is
    repeated without peers.
    """
    try:
        return runner.compare(libraries, groups=groups(kind))
    except ChildFailed as error:
        log.warning("climbed_again", reason=str(error))
    faulty = {
        name: f"{found.status}: {found.error}"
        for name, path in libraries.items()
        if name != EMPTY and (found := runner.measure(path)).status != "ok"
    }
    sound = {name: path for name, path in libraries.items() if name not in faulty}
    compared = runner.compare(sound, groups=groups(kind) if faulty else ())
    return replace(compared, dropped=compared.dropped | faulty)

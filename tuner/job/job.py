"""The run of one job: plan, search, last round, and publication of its winners."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy.engine import Engine

from db import queue
from db.contract.order import PREDICTED, Baselines
from db.queue import history
from db.results import best as bests
from db.results import peer_times
from db.results import trials as log_of_trials
from db.results.peer_times import PeerTimes
from db.results.trials import NewTrial, config_key
from db.sql.errors import DuplicateTrial
from templates.template import Template
from tuner.build.blame import blame_candidate
from tuner.build.builder import Builder
from tuner.build.compile import Built
from tuner.compare.measuring import Measuring
from tuner.compare.peer_process import PeerProcesses
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.errors import NothingWorked
from tuner.farm.farm import Farm
from tuner.farm.runner import FarmRunner
from tuner.job.fastest_builds import FastestBuilds
from tuner.job.final import Winner, run_final_round, start_known_builds
from tuner.job.finalists import finalists
from tuner.job.lease import Lease
from tuner.job.pipeline import BATCH, measured_candidates
from tuner.job.progress import Progress, eta_seconds
from tuner.job.publish import Signing, publish
from tuner.job.record import metaschedule_record
from tuner.job.tally import Tally
from tuner.measure import cases
from tuner.measure.noise import measure_noise
from tuner.measure.trial import Measured
from tuner.measure.versions import TVM, of_peers
from tuner.peers import groups
from tuner.plan import metaschedule as metaschedule_peer
from tuner.plan.known import known_trials
from tuner.plan.listed import ListedPlan
from tuner.plan.make_plan import make_plan
from tuner.plan.plan import Config
from tuner.plan.warm_start import warm_up
from tuner.process.scratch import must_have_room
from tuner.settings import Settings

log = structlog.get_logger()

RECORD_SECONDS = 120.0
REFUSED_AT_ONCE = 100
"""Refused configurations that are stored between two checks of the lease."""


class JobRun:
    """The run of a job under its lease, on one device. Each trial is stored as soon as it ends.

    ``among`` restricts the search to these templates. With a ``farm``, its servers measure instead
    of this machine. ``peers`` are the processes in which peers are timed. ``watch`` is called with
    each progress that is stored.
    """

    def __init__(
        self,
        engine: Engine,
        lease: Lease,
        device: Device,
        device_id: int,
        builder: Builder,
        *,
        settings: Settings,
        signing: Signing,
        among: Sequence[Template[Any]] | None = None,
        farm: Farm | None = None,
        peers: PeerProcesses | None = None,
        watch: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._engine, self._lease, self._job = engine, lease, lease.job
        self._device, self._device_id = device, device_id
        self._builder, self._settings, self._watch = builder, settings, watch
        self._farm, self._peers = farm, peers
        self._signing = signing
        seed = self._job.seed if self._job.seed is not None else int.from_bytes(os.urandom(4))
        self._plan = make_plan(engine, self._job, device, seed, among, lease.check)
        self._seed = seed
        self._tally = Tally()
        self._earlier = 0
        self._started = time.monotonic()

    def run(self) -> None:
        """Search, run the last round, store the bests and end the job as succeeded.

        Raises Cancelled or LeaseLost as the lease does, NothingWorked if there is no winner,
        NoDiskSpace if there is no space for its files, NoLinker if no library can be linked any
        more, NoServer if the farm has no server left.
        """
        self._load_known_trials()
        self._warn_if_not_quiet()
        if self._job.warm_start:
            self._warm_up()
        self._report()
        with self._builder.folder("convtune-job-") as folder:
            fastest = FastestBuilds(folder)
            naive = self._job.search != PREDICTED  # a user waits for a prediction: be quick
            with self._runner() as runner:
                overlaps = runner.overlaps_builds
                started_builds = (
                    start_known_builds(self._plan, self._builder, folder, naive=naive)
                    if overlaps
                    else {}
                )
                self._search(runner, folder, fastest)
                if not self._tally.worked:
                    raise NothingWorked(self._tally.why_nothing_worked())
                self._lease.check()
                baseline_builds = self._searched_baselines(folder)
                chosen = self._finalists()
                versions = runner.peer_versions
                decision = run_final_round(
                    self._plan,
                    self._builder,
                    runner,
                    folder,
                    chosen,
                    baseline_builds,
                    self._job.baselines,
                    known_peer_times=self._known_peer_times(versions),
                    naive=naive,
                    fastest=fastest,
                    started_builds=started_builds,
                )
            self._lease.check()
            if versions and decision.peers:
                peer_times.store(self._engine, *self._peer_times_key(), versions, decision.peers)
            winners = [
                replace(winner, built=self._builder.with_source(winner.built))
                for winner in decision.winners
            ]
            publish(
                self._engine,
                self._job,
                self._plan,
                self._device_id,
                winners,
                records=[self._record(winner) for winner in winners],
                trials_measured=self._tally.total,
                signing=self._signing,
            )

    def _warn_if_not_quiet(self) -> None:
        """Log a warning if this machine's CPU will measure and is not quiet."""
        if self._farm is not None or self._device.kind != "cpu":
            return
        with self._peers.paused() if self._peers is not None else nullcontext():
            seen = measure_noise()
        if not seen["quiet"]:
            log.warning("machine_not_quiet", reason=seen["reason"])

    def _finalists(self) -> list[Config]:
        """Return the finalists. A user waits for a prediction, so only its fastest trial is one."""
        trials = self._tally.worked
        if self._job.search == PREDICTED:
            trials = [min(trials, key=lambda trial: trial[1])]
        return finalists(trials, self._stored_bests(), self._plan.threads)

    def _stored_bests(self) -> list[Config]:
        """Return the stored bests that can be built again, so that no better kernel is lost."""
        found = bests.bests_on_device(self._engine, self._job.workload_key, self._device_id)
        competitors = [self._plan.competitor(best.config, best.template_version) for best in found]
        return [config for config in competitors if config is not None]

    def _known_peer_times(self, versions: dict[str, str] | None) -> PeerTimes | None:
        """Return the times of peers that an earlier job measured with the same versions, if any."""
        if not versions:
            return None
        return peer_times.find(self._engine, *self._peer_times_key(), versions)

    def _peer_times_key(self) -> tuple[str, int, Baselines]:
        return self._job.workload_key, self._device_id, self._job.baselines

    def _record(self, winner: Winner) -> dict[str, Any]:
        order, seconds = winner.built.order, winner.time_us * 1e-6
        return self._builder.call(metaschedule_record, order, seconds, timeout=RECORD_SECONDS)

    def _runner(self) -> Runner | FarmRunner:
        """Return the runner: on this machine's device, or on the farm's servers."""
        settings, key = self._settings, self._plan.workload.key
        limits = (settings.run_seconds, self._settle_seconds)
        if self._farm is not None:
            return self._farm.runner(key, self._seed, *limits)
        must_have_room(cases.size(self._plan.workload), settings.scratch_bytes)
        peers = self._peers
        if peers is None or settings.metaschedule:  # MetaSchedule's search does not pause peers
            return Runner(key, self._device, self._seed, *limits)
        taken = peers.take(self._peers_to_time())
        return Runner(key, self._device, self._seed, *limits, taken, peers.paused)

    @property
    def _settle_seconds(self) -> float:
        """Seconds to settle the round. 0 makes a prediction's round rough, because a user waits."""
        return 0.0 if self._job.search == PREDICTED else self._settings.settle_seconds

    def _peers_to_time(self) -> tuple[str, ...]:
        """Return the groups of peers that the last round will time."""
        rough = self._settle_seconds == 0
        if not rough and self._known_peer_times(of_peers(self._device)) is not None:
            return ()
        return groups(self._device.kind, self._job.baselines)

    def _searched_baselines(self, folder: Path) -> dict[str, Built]:
        """Return the builds of baselines with a search of their own, if settings ask for them."""
        if not self._settings.metaschedule:
            return {}
        inside = folder / metaschedule_peer.NAME
        inside.mkdir()
        found = metaschedule_peer.search(
            self._plan.workload,
            self._device,
            self._settings,
            self._tally.total or self._job.trials,
            self._seed,
            inside,
            self._lease.check,
        )
        log.info("metaschedule_searched", status=found.status, error=found.error)
        return {metaschedule_peer.NAME: found}

    def _search(self, runner: Measuring, folder: Path, fastest: FastestBuilds) -> None:
        results = measured_candidates(
            self._plan,
            self._builder,
            runner,
            folder,
            left=self._trials_left,
            check=self._lease.check,
        )
        with closing(self._plan), closing(results):
            for config, built, result in results:
                time_us = self._store_trial(config, built, result)
                if time_us is not None:
                    fastest.offer(config, built, time_us)
                self._report()
                self._lease.check()

    def _load_known_trials(self) -> None:
        """Tell the plan the stored trials of the workload on this device, this job's included."""
        known = known_trials(self._engine, self._job, self._device_id, self._settings)
        current = [
            trial for trial in known if self._plan.knows(trial.config, trial.template_version)
        ]
        self._plan.tell([(t.config, t.time_us if t.status == "ok" else None) for t in current])
        for t in current:
            own = t.job_id == self._job.id
            self._tally.add(t.config, t.status, t.time_us, t.error, own=own)
        self._skip_refused({(trial.config_key, trial.template_version) for trial in known})
        self._earlier = self._tally.total
        log.info("job_planned", space=self._plan.size, known=len(current))

    def _skip_refused(self, known: Collection[tuple[str, int]]) -> None:
        """Store the listed configurations that this device's space lacks as skipped trials.

        An earlier attempt or another list has already stored those in ``known``.
        """
        refused = self._plan.skipped(self._device_id) if isinstance(self._plan, ListedPlan) else []
        for start in range(0, len(refused), REFUSED_AT_ONCE):
            self._lease.check()
            some = refused[start : start + REFUSED_AT_ONCE]
            self._store_skipped(
                [
                    each
                    for each in some
                    if (config_key(each.config), each.template_version) not in known
                ]
            )
            for trial in some:
                self._tally.add_refused(trial.status, trial.error)

    def _store_skipped(self, new: Sequence[NewTrial]) -> None:
        job = self._job
        try:
            log_of_trials.add(self._engine, job.id, job.attempt, new)
        except DuplicateTrial:  # another job stored some meanwhile
            for trial in new:
                with suppress(DuplicateTrial):
                    log_of_trials.add(self._engine, job.id, job.attempt, [trial])

    def _warm_up(self) -> None:
        from_jobs, from_trials = warm_up(self._engine, self._plan, self._device_id)
        history.note_warm_start(
            self._engine,
            self._job.id,
            self._job.attempt,
            from_jobs=from_jobs,
            from_trials=from_trials,
        )
        log.info("job_warmed_up", jobs=from_jobs, trials=from_trials)

    def _trials_left(self) -> int:
        """Return how many more trials are wanted.

        The budget ends the search, but not before a first batch: making the inputs and references
        of a large workload may take the whole budget, and the batch is built meanwhile. Patience
        ends the search, but not before a trial has worked, because a best needs one.
        """
        patience = self._patience_left()
        if patience is not None and patience <= 0:
            return 0
        budget = self._job.budget_seconds
        over = budget is not None and time.monotonic() - self._started > budget
        if over and len(self._tally.worked) + self._tally.failures.total() >= BATCH:
            return 0
        return max(0, self._job.trials - self._tally.total)

    def _patience_left(self) -> int | None:
        """Return after how many more trials without progress the search ends; None for no limit."""
        patience = self._job.patience
        if patience is None or not self._tally.worked:
            return None
        return patience - self._tally.no_faster

    def _store_trial(self, config: Config, built: Built, result: Measured | None) -> float | None:
        """Store the trial and tell the plan; return its time in µs, None if it failed."""
        trial = NewTrial(
            device_id=self._device_id,
            config=config,
            template=config["template"],
            template_version=self._plan.version(config),
            tvm_version=TVM,
            status=result.status if result else built.status,
            time_us=result.timing["warm"]["median_us"] if result and result.timing else None,
            timing=result.timing or None if result else None,
            max_error=result.max_error if result else None,
            error=result.error if result else built.error,
            seconds=(built.seconds or {}) | (result.seconds if result else {}),
        )
        blame_candidate(trial.status)
        self._plan.tell([(config, trial.time_us)])
        own = True
        try:
            log_of_trials.add(self._engine, self._job.id, self._job.attempt, [trial])
        except DuplicateTrial:  # another job has stored it since
            own = False
        self._tally.add(config, trial.status, trial.time_us, trial.error, own=own)
        if own:
            log.info("trial", number=self._tally.total, status=trial.status, time_us=trial.time_us)
        else:
            log.info("trial_known", config=config)
        return trial.time_us

    def _report(self) -> None:
        done, ok = self._tally.total, self._tally.statuses["ok"]
        progress = Progress(
            requested=self._job.trials,
            measured=done,
            ok=ok,
            failed=done - ok,
            best=self._tally.best(self._plan.workload.flops),
            eta_seconds=eta_seconds(
                elapsed=time.monotonic() - self._started,
                fresh=done - self._earlier,
                left=self._trials_left(),
                patience_left=self._patience_left(),
                budget_seconds=self._job.budget_seconds,
            ),
        )
        queue.progress(
            self._engine,
            self._job.id,
            self._job.attempt,
            measured=progress.measured,
            ok=progress.ok,
            failed=progress.failed,
            best=progress.best,
            eta_seconds=progress.eta_seconds,
            device_id=self._device_id,
        )
        self._watch(progress)

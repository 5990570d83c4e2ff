"""One soak, from its first order to the end of its last process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.accounts import Accounts, settle
from tests.soak.actor import Site
from tests.soak.idle import REST_SECONDS, Idle, drained, rested
from tests.soak.installation import Installation
from tests.soak.samples import Sample, Sampler
from tests.soak.tally import Tally
from tests.soak.traffic import Killer, Traffic

FIRST = {"operator": "conv1d", "M": 1500, "N": 31, "trials": 24, "target": "cpu"}
"""The first job: it has so many trials that the cost model is trained and XGBoost starts its
thread."""
FIRST_SECONDS = 180.0


@dataclass(frozen=True)
class Plan:
    """The phases of a soak, in seconds.

    1. One job runs to its end, so that whatever is made once and kept exists.
    2. Traffic flows for ``warm_seconds``.
    3. The first rest. If ``first_rest_seconds`` is too short for the service's idle threads to end,
       it counts more of them, and small leaks are not seen.
    4. Traffic flows until ``seconds`` after the start, but at least for half of ``seconds``. Worker
       B is killed up to ``calm_seconds`` apart; if that is 0, it is not started.
    5. The last rest.

    A sample is taken every ``interval`` seconds.
    """

    seconds: float
    seed: int
    warm_seconds: float
    first_rest_seconds: float
    calm_seconds: float
    interval: float


@dataclass
class Outcome:
    """Everything about a soak that is judged.

    ``orphans`` are processes left after the end, ``stuck`` the actors that did not end in time.
    """

    plan: Plan
    samples: list[Sample]
    first: Idle
    last: Idle
    accounts: Accounts
    tally: Tally
    kills: int
    exit_codes: dict[str, int]
    orphans: list[str]
    stuck: list[str] = field(default_factory=list)


def soak(folder: Path, plan: Plan, say: Callable[[str], None]) -> Outcome:
    """Run a soak in an empty folder; call ``say`` with a line a minute.

    Raise RuntimeError if service or worker A ends by itself, TimeoutError if they do not start or
    jobs do not end, and TunerError if a job that the soak waits for fails.
    """
    installation = Installation(folder)
    try:
        installation.until_ready()
        return _lived_through(installation, plan, say)
    finally:
        installation.close()


def _lived_through(installation: Installation, plan: Plan, say: Callable[[str], None]) -> Outcome:
    site = Site(
        installation.url,
        installation.submit_key,
        installation.read_key,
        installation.folder,
        Tally(),
    )
    killer = Killer(installation, plan.seed, plan.calm_seconds)
    sampler = Sampler(installation, plan.interval, _each_minute(site.tally, killer, say))
    sampler.start()
    with site.client() as client:
        client.wait(client.submit(**FIRST), timeout=FIRST_SECONDS)
    traffic = Traffic(site, plan.seed)
    _until(installation, sampler, sampler.now + plan.warm_seconds)
    stuck = traffic.end()
    _run_job_of_new_shape(installation, site, 1501)
    first = rested(installation, plan.first_rest_seconds)
    say(f"first rest: {first.to_json()}")
    if plan.calm_seconds:
        killer.start()
    traffic = Traffic(site, plan.seed + 1)
    _until(installation, sampler, max(plan.seconds, sampler.now + plan.seconds / 2))
    if plan.calm_seconds:
        killer.end()
    stuck += traffic.end()
    installation.stop_b()
    _run_job_of_new_shape(installation, site, 1502)
    last = rested(installation, REST_SECONDS)
    say(f"last rest: {last.to_json()}")
    sampler.end()
    exit_codes = installation.stop()
    return Outcome(
        plan=plan,
        samples=sampler.samples,
        first=first,
        last=last,
        accounts=settle(installation.engine, installation.log("api")),
        tally=site.tally,
        kills=killer.kills,
        exit_codes=exit_codes,
        orphans=installation.orphans(),
        stuck=stuck,
    )


def _run_job_of_new_shape(installation: Installation, site: Site, length: int) -> None:
    """Wait until all other jobs have ended; then run a short job of a length never ordered."""
    drained(installation)
    with site.client() as client:
        order = FIRST | {"M": length, "trials": 2}
        client.wait(client.submit(**order), timeout=FIRST_SECONDS)


def _until(installation: Installation, sampler: Sampler, when: float) -> None:
    while (left := when - sampler.now) > 0:
        installation.see_that_it_lives()
        time.sleep(min(left, 1.0))


def _each_minute(
    tally: Tally, killer: Killer, say: Callable[[str], None]
) -> Callable[[Sample], None]:
    minute = 0

    def each(sample: Sample) -> None:
        nonlocal minute
        if sample.at < 60 * minute:
            return
        minute += 1
        say(
            f"{sample.at:5.0f} s: API {sample.api.rss_mb:.1f} MB, worker "
            f"{sample.worker.rss_mb:.1f} MB, its tree {sample.tree_rss_mb:.0f} MB, builder "
            f"{sample.builder_rss_mb:.0f} MB; {tally.answers.total()} answers, "
            f"{tally.wrong} wrong, {tally.unanswered} broken off; {killer.kills} kills"
        )

    return each

"""The pipeline of a search: candidates go through the builder and the runner to results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.build.builder import Builder
from tuner.build.compile import Built
from tuner.compare.measuring import Measuring
from tuner.measure.trial import Measured
from tuner.plan.plan import Config, Plan
from tuner.process.stopping import POLL_SECONDS, check_stopped, unended

BATCH = 8


@dataclass(eq=False)
class _Candidate:
    config: Config
    build: Future[Built]
    run: Future[Measured] | None = None

    @property
    def measurable(self) -> bool:
        return self.run is None and self.build.done() and self.build.result().status == "ok"

    @property
    def ended(self) -> bool:
        return not self.measurable and all(each.done() for each in self.futures)

    @property
    def blames_machine(self) -> bool:
        result = self.build.result() if self.run is None else self.run.result()
        return result.status == "machine_error"

    @property
    def futures(self) -> tuple[Future[Any], ...]:
        return (self.build,) if self.run is None else (self.build, self.run)


def measured_candidates(
    plan: Plan,
    builder: Builder,
    runner: Measuring,
    folder: Path,
    *,
    left: Callable[[], int],
    check: Callable[[], None],
) -> Generator[tuple[Config, Built, Measured | None]]:
    """Yield a configuration, its build and its measurement as each candidate ends.

    The measurement is None if the build failed. If several candidates have ended, they come in the
    order of proposals. A measured library is deleted when the next result is asked for, unless it
    was renamed.
    A candidate that fails with ``machine_error`` is tried once more, when nothing else runs.

    ``left()`` returns how many more results are wanted; at 0, candidates in flight are cancelled.
    ``check()`` is called repeatedly during every wait and may raise. If the runner
    ``overlaps_builds``, the next batch is built while one runs. Otherwise a batch is built before
    any of it runs.
    """
    batch = max(BATCH, builder.workers, 2 * runner.max_in_flight)
    pending: list[_Candidate] = []
    numbers = itertools.count()
    try:
        while (wanted := left()) > 0:
            if not pending or (runner.overlaps_builds and len(pending) <= batch):
                for config in plan.ask(min(batch, wanted - len(pending))):
                    library = folder / f"{next(numbers)}.so"
                    build = builder.submit(plan.order(config, library))
                    pending.append(_Candidate(config, build))
            if not pending:
                return
            builds = [each.build for each in pending]
            while not runner.overlaps_builds and unended(builds):
                check()
            while (first := _first_ended(pending, runner)) is None:
                in_flight = [each for one in pending for each in one.futures if not each.done()]
                if not wait(in_flight, POLL_SECONDS, FIRST_COMPLETED).done:
                    check()
            pending.remove(first)
            if first.blames_machine:
                first = _try_again_alone(first, pending, builder, runner, check)
            built = first.build.result()
            result = None if first.run is None else first.run.result()
            yield first.config, built, result
            if result is not None:
                built.order.library.unlink(missing_ok=True)
        _cancel(pending)  # runs still in flight would disturb the next measurements
        while unended(each.run for each in pending if each.run):
            check()
    finally:  # builds of a job that ends early would delay the next job's
        _cancel(pending)


def _try_again_alone(
    failed: _Candidate,
    others: Iterable[_Candidate],
    builder: Builder,
    runner: Measuring,
    check: Callable[[], None],
) -> _Candidate:
    """Wait until the others are no longer in flight, then repeat the step in which the candidate
    failed. Return the candidate when it has ended."""
    check()
    while unended(f for each in others for f in each.futures):
        check()
    order = failed.build.result().order
    again = _Candidate(failed.config, failed.build if failed.run else builder.submit(order))
    try:
        while _first_ended([again], runner) is None:
            wait([each for each in again.futures if not each.done()], POLL_SECONDS)
            check()
    finally:
        _cancel([again])
    return again


def _cancel(pending: Iterable[_Candidate]) -> None:
    for each in pending:
        each.build.cancel()
        if each.run is not None:
            each.run.cancel()


def _first_ended(pending: Iterable[_Candidate], runner: Measuring) -> _Candidate | None:
    """Submit built libraries to the runner, then return the first candidate that has ended."""
    _submit_built(pending, runner)
    return next((each for each in pending if each.ended), None)


def _submit_built(pending: Iterable[_Candidate], runner: Measuring) -> None:
    """Submit built libraries, in order, until the runner has as many in flight as it takes."""
    in_flight = sum(each.run is not None and not each.run.done() for each in pending)
    for each in pending:
        if in_flight >= runner.max_in_flight:
            return
        if each.measurable:
            each.run = runner.submit(each.build.result().order.library)
            in_flight += 1


def best_of(
    plan: Plan, builder: Builder, runner: Measuring, folder: Path, trials: int
) -> tuple[Config | None, int]:
    """Search with ``trials`` trials; return the fastest configuration and the number of trials.

    The configuration is None if no trial worked. There are fewer trials if the space runs out.
    """
    times: list[tuple[Config, float | None]] = []
    results = measured_candidates(
        plan, builder, runner, folder, left=lambda: trials - len(times), check=check_stopped
    )
    with closing(results):
        for config, _, result in results:
            time_us = None
            if result is not None and result.status == "ok":
                time_us = result.timing["warm"]["median_us"]
            times.append((config, time_us))
            plan.tell(times[-1:])
            check_stopped()
    worked = [(time, place) for place, (_, time) in enumerate(times) if time is not None]
    return (times[min(worked)[1]][0] if worked else None), len(times)

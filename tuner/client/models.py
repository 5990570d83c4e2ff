"""Models from Python: many workloads as one order, and its gain."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar
from urllib.parse import quote

from db.contract.job import Shown
from tuner.client.answers import Job, ListedModel, Model, Models
from tuner.client.listening import FIRST_PAUSE_SECONDS, LOOK_SECONDS, OUTAGE_SECONDS, may_pass
from tuner.errors import ModelFailed, ModelStillRunning, ServiceError
from tuner.job.order import only_terms, sendable, taking_terms
from tuner.plain import plain

MODELS_PER_PAGE = 100
LOOK_AGAIN_SECONDS = 5.0
"""How often a model is asked for while one of its jobs is listened to."""

A = TypeVar("A", bound=Shown)


class ModelCalls(ABC):
    """What a service's client does with models."""

    _timeout: float

    @abstractmethod
    def _ask(self, kind: type[A], method: str, path: str, **given: Any) -> A: ...

    @abstractmethod
    def _states(self, job: Job | str, timeout: float | None) -> Generator[Job]: ...

    @taking_terms
    def submit_model(
        self, name: str, workloads: Sequence[Mapping[str, Any]], **terms: Any
    ) -> Model:
        """Order many workloads at once, each ``{"operator": "conv1d", "workload": {"M": 16384,
        "N": 32}, "calls": 3}``, on terms as those of :meth:`submit`. Each gets a job, which other
        orders may share. All are taken, or none. Raises BadOrder for a value that no order can
        hold, ServiceError for one that the service refuses."""
        order = plain({"name": name, "workloads": list(workloads)})
        return self._ask(Model, "POST", "/models", json=order | sendable(only_terms(terms)))

    def model(self, model: Model | ListedModel | str) -> Model:
        """The model as it is now, with its layers."""
        return self._ask(Model, "GET", _path(model))

    def models(self) -> Iterator[ListedModel]:
        """All models without their layers, newest first, fetched as they are taken."""
        query: dict[str, Any] = {"limit": MODELS_PER_PAGE}
        while True:
            page = self._ask(Models, "GET", "/models", params=query)
            yield from page.items
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def wait_model(
        self,
        model: Model | ListedModel | str,
        timeout: float | None = None,
        progress: Callable[[Model], object] | None = None,
        *,
        bar: bool = False,
    ) -> Model:
        """The model once all of its jobs have succeeded. One of them after the other is listened
        to. ``progress`` is called with each new state of the model; with ``bar``, it is shown on
        standard error.

        Raises ModelFailed if a job fails or the model is cancelled, ModelStillRunning after
        ``timeout`` seconds."""
        with ExitStack() as stack:
            show = _shown_on_a_bar(stack) if bar else lambda _: None
            for current in self._model_states(model, timeout):
                show(current)
                if progress is not None:
                    progress(current)
        if timeout is not None and not current.ended:
            raise ModelStillRunning(current, timeout)
        if current.state != "succeeded":
            raise ModelFailed(current)
        return current

    def cancel_model(self, model: Model | ListedModel | str) -> Model:
        """The model, cancelled, or ``running`` until workers have seen it. Jobs that others want,
        too, go on."""
        return self._ask(Model, "POST", f"{_path(model)}/cancel")

    def _model_states(
        self, model: Model | ListedModel | str, timeout: float | None
    ) -> Generator[Model]:
        """The model as it is now, and each time that it has changed, to its end or to the
        timeout's."""
        deadline = None if timeout is None else time.monotonic() + timeout
        current = self._looked_at(model, deadline)
        yield current
        heard = time.monotonic()
        while not current.ended:
            left = LOOK_AGAIN_SECONDS
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
            if left <= 0:
                return
            try:
                for _ in self._states(_job_of(current), left):
                    pass
                later = self._looked_at(current, deadline)
            except ServiceError as failure:
                if not may_pass(failure) or time.monotonic() - heard > OUTAGE_SECONDS:
                    raise
                time.sleep(min(FIRST_PAUSE_SECONDS, left))
                continue
            heard = time.monotonic()
            if later != current:
                current = later
                yield current

    def _looked_at(self, model: Model | ListedModel | str, deadline: float | None) -> Model:
        look = self._timeout
        if deadline is not None:
            look = min(look, max(deadline - time.monotonic(), LOOK_SECONDS))
        return self._ask(Model, "GET", _path(model), timeout=look)


def _job_of(model: Model) -> str:
    """The job to listen to: one that runs, if any does."""
    jobs = {each.state: each.job for each in reversed(model.layers)}
    return jobs.get("running") or jobs.get("queued") or model.layers[-1].job


def _shown_on_a_bar(stack: ExitStack) -> Callable[[Model], None]:
    from tuner.terminal.bar import JobBar  # rich: what shows nothing does without

    bar = stack.enter_context(JobBar())

    def show(model: Model) -> None:
        trials = model.progress.trials
        bar.show(
            state=model.state,
            requested=trials.requested,
            measured=trials.measured,
            failed=0,
            best_us=None,
            eta_seconds=model.eta_seconds,
        )

    return show


def _path(model: Model | ListedModel | str) -> str:
    return f"/models/{quote(model if isinstance(model, str) else model.id, safe='')}"

"""The part of the client that orders models (many workloads at once) and waits for them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar
from urllib.parse import quote

from db.contract.job import Shown
from tuner.client.answers import Job, ListedModel, Model, Models
from tuner.client.listening import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MIN_REQUEST_SECONDS,
    OUTAGE_SECONDS,
    log_waiting_reason,
    may_pass,
)
from tuner.errors import ModelFailed, ModelStillRunning, ServiceError
from tuner.job.order import only_terms, terms_as_json, with_terms_signature
from tuner.plain import plain

MODELS_PER_PAGE = 100

A = TypeVar("A", bound=Shown)


class ModelCalls(ABC):
    """The methods of :class:`tuner.client.Client` for models."""

    _timeout: float

    @abstractmethod
    def _ask(self, kind: type[A], method: str, path: str, **given: Any) -> A: ...

    @with_terms_signature
    def submit_model(
        self, name: str, workloads: Sequence[Mapping[str, Any]], **terms: Any
    ) -> Model:
        """Order many workloads at once.

        Each workload is a mapping such as ``{"operator": "conv1d", "workload": {"M": 16384, "N":
        32}, "calls": 3}``. The other options are those of :meth:`submit` and hold for all
        workloads. Each workload gets a job, which other orders may share. The service takes all
        workloads or none. Raises BadOrder for a value that no order can hold, ServiceError for a
        value that the service refuses.
        """
        order = plain({"name": name, "workloads": list(workloads)})
        return self._ask(Model, "POST", "/models", json=order | terms_as_json(only_terms(terms)))

    def model(self, model: Model | ListedModel | str) -> Model:
        """Return the model in its current state, with its layers."""
        return self._ask(Model, "GET", _path(model))

    def models(self) -> Iterator[ListedModel]:
        """Yield all models without their layers, newest first, page by page."""
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
        """Wait until all jobs of the model have succeeded and return the model.

        The client asks for the model again and again, after pauses that grow to two seconds.
        ``progress`` is called with each new state of the model. With ``bar``, a progress bar is
        shown on standard error.

        Raises ModelFailed if a job fails or the model is cancelled, ModelStillRunning after
        ``timeout`` seconds.
        """
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
        """Cancel the model and return it.

        A running model stays ``running`` until its workers see that. Jobs that other orders share
        continue.
        """
        return self._ask(Model, "POST", f"{_path(model)}/cancel")

    def _model_states(
        self, model: Model | ListedModel | str, timeout: float | None
    ) -> Generator[Model]:
        """Yield the model in its current state and after each change.

        Stop when the model has ended or after ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        current = self._look(Model, _path(model), deadline)
        yield current
        heard, pause = time.monotonic(), FIRST_PAUSE_SECONDS
        while not current.ended:
            left = pause if deadline is None else min(pause, deadline - time.monotonic())
            if left <= 0:
                return
            time.sleep(left)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                self._log_waiting_reason(current, deadline)
                later = self._look(Model, _path(model), deadline)
            except ServiceError as failure:
                if not may_pass(failure) or time.monotonic() - heard > OUTAGE_SECONDS:
                    raise
                continue
            heard = time.monotonic()
            if later != current:
                current = later
                yield current

    def _log_waiting_reason(self, model: Model, deadline: float | None) -> None:
        """Log why the first queued job waits, if none of the model's jobs runs."""
        jobs = {each.state: each.job for each in reversed(model.layers)}
        if "queued" in jobs and "running" not in jobs:
            job = self._look(Job, f"/jobs/{jobs['queued']}", deadline)
            if job.waiting:
                log_waiting_reason(job.id, job.waiting)

    def _look(self, kind: type[A], path: str, deadline: float | None) -> A:
        look = self._timeout
        if deadline is not None:
            look = min(look, max(deadline - time.monotonic(), MIN_REQUEST_SECONDS))
        return self._ask(kind, "GET", path, timeout=look)


def _shown_on_a_bar(stack: ExitStack) -> Callable[[Model], None]:
    from tuner.terminal.bar import JobBar  # imports rich, needed only if a bar is shown

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

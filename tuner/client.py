"""The service from Python: order a job, wait for it, ask for the best, call its library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from tuner.answers import Answer, Artifact, Best, Job, Trial, Trials
from tuner.cache import Cache
from tuner.errors import (
    JobFailed,
    NoCompiler,
    NotTuned,
    ServiceError,
    ServiceUnreachable,
    StillRunning,
)
from tuner.source import Source

OUTAGE_SECONDS = 30.0
"""How long a wait bears with a service that has answered before: the time to start it anew."""
TRIALS_PER_PAGE = 1000
NOT_MODIFIED = 304
_NOT_TUNED = "urn:convtune:problem:not-tuned"

A = TypeVar("A", bound=Answer)


class Client(Source):
    """A service at ``url``. ``timeout`` is what each request may take, in seconds; ``cache`` the
    folder for downloads, by default convtune in the user's cache folder.

    Every call raises ServiceError where the service refuses, with the fields at fault, and
    ServiceUnreachable where none answers. Close it, or use it in a ``with``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        timeout: float = 30.0,
        cache: Path | None = None,
    ) -> None:
        try:
            self._http = httpx2.Client(base_url=url, timeout=timeout)
        except httpx2.InvalidURL as error:
            raise ServiceUnreachable(url, str(error)) from error
        self.url = str(self._http.base_url.copy_with(userinfo=b""))  # it stands in messages
        self.cache = Cache(cache)

    def submit(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        trials: int = 64,
        target: str = "auto",
        search: str = "xgb",
        on_existing: str = "reuse",
        budget_seconds: float | None = None,
        seed: int | None = None,
        patience: int | None = None,
        warm_start: bool = True,
        **shape: Any,
    ) -> Job:
        """Order a job: ``client.submit("conv1d", M=16384, N=32)``. The workload's fields are given
        by name, in a mapping, or both. An equal job that is there already is the answer. With
        ``patience`` the search ends after so many trials in a row that were no faster."""
        order = {
            "operator": operator,
            "workload": {**(workload or {}), **shape},
            "trials": trials,
            "target": target,
            "search": search,
            "on_existing": on_existing,
            "budget_seconds": budget_seconds,
            "seed": seed,
            "patience": patience,
            "warm_start": warm_start,
        }
        return self._ask(Job, "POST", "/jobs", json=order)

    def job(self, job: Job | str) -> Job:
        """The job as it is now."""
        return self._ask(Job, "GET", _path(job))

    def wait(
        self,
        job: Job | str,
        timeout: float | None = None,
        progress: Callable[[Job], object] | None = None,
        poll: float = 0.5,
        *,
        bar: bool = False,
    ) -> Job:
        """The job once it has succeeded. ``progress`` is called with each new state of it; with
        ``bar``, it is shown on standard error.

        Raises JobFailed where it fails or is cancelled, StillRunning after ``timeout`` seconds.
        """
        with ExitStack() as stack:
            show = _shown_on_a_bar(stack) if bar else lambda _: None
            start = heard = time.monotonic()
            seen: Job | None = None
            while True:
                try:
                    current, heard = self.job(job), time.monotonic()
                except ServiceError as error:
                    passing = error.status is None or error.status >= 500
                    if seen is None or not passing or time.monotonic() - heard > OUTAGE_SECONDS:
                        raise
                    current = seen
                if current != seen:
                    show(current)
                    if progress is not None:
                        progress(current)
                seen = current
                if current.state == "succeeded":
                    return current
                if current.ended:
                    raise JobFailed(current)
                left = poll if timeout is None else start + timeout - time.monotonic()
                if timeout is not None and left <= 0:
                    raise StillRunning(current, timeout)
                time.sleep(min(poll, left))

    def cancel(self, job: Job | str) -> Job:
        """The job, cancelled, or ``running`` until its worker has seen it."""
        return self._ask(Job, "POST", f"{_path(job)}/cancel")

    def trials(self, job: Job | str, status: str | None = None) -> Iterator[Trial]:
        """All trials of a job, first to last, fetched as they are taken."""
        query: dict[str, Any] = {"limit": TRIALS_PER_PAGE}
        if status is not None:
            query["status"] = status
        while True:
            page = self._ask(Trials, "GET", f"{_path(job)}/trials", params=query)
            yield from page.items
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def best(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        match: str = "exact",
        target: str | None = None,
        device: str | None = None,
        **shape: Any,
    ) -> Best:
        """The best for a shape: ``client.best("conv1d", M=16384, N=32)``, or
        ``client.best(job.operator, job.workload)``; of several devices the fastest. ``match`` may
        be ``nearest``, ``target`` ``cpu`` or ``cuda``. An answer is kept in the cache with its
        ETag, and sent anew only when it has changed. Raises NotTuned."""
        filters = {"match": match, "target": target, "device": device}
        query = {name: text for name, text in filters.items() if text is not None}
        query = {**(workload or {}), **shape, **query}
        path = f"/best/{quote(operator, safe='')}"
        return self._ask(Best, "GET", path, kept=True, params=query)

    def tune(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        bar: bool = False,
        **order: Any,
    ) -> Best:
        """Search here and now, without the service: ``client.tune("conv1d", M=16384, N=32)``, with
        the options of :meth:`submit`. The job is kept in the database of TUNER_DATABASE_URL, the
        files of its best in the cache, where :meth:`load` finds them. Raises NoCompiler where
        only the client is installed."""
        try:
            from tuner.local import Local
        except ImportError as error:
            raise NoCompiler(str(error)) from error
        if find_spec("tvm") is None:
            raise NoCompiler("apache-tvm is not installed")
        with Local(cache=self.cache.folder) as local:
            best = local.tune(operator, workload, bar=bar, **order)
            local.load(best)
        return best

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _content(self, artifact: Artifact) -> Iterator[Iterator[bytes]]:
        try:
            with self._http.stream("GET", artifact.url) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _refusal(answer)
                yield answer.iter_bytes()
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error

    def _ask(self, kind: type[A], method: str, path: str, *, kept: bool = False, **given: Any) -> A:
        request = self._http.build_request(method, path, **given)
        url = f"{self.url}{request.url.raw_path.decode()}"  # without a password
        held = self.cache.answer(url) if kept else None
        if held is not None:
            request.headers["If-None-Match"] = held[0]
        try:
            answer = self._http.send(request)
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error
        if held is not None and answer.status_code == NOT_MODIFIED:
            content = held[1]
        elif answer.is_success:
            content = answer.content
        else:
            raise _refusal(answer)
        try:
            found = kind.model_validate_json(content)
        except ValidationError as error:
            raise ServiceError(
                answer.status_code,
                f"what answers at {self.url} is no convtune service that this client knows: "
                f"its answer to {method} {path} is no {kind.__name__}",
            ) from error
        etag = answer.headers.get("ETag")
        if kept and etag and content is not (held and held[1]):
            self.cache.keep_answer(url, etag, content)
        return found

    def _unreachable(self, error: httpx2.RequestError) -> ServiceUnreachable:
        return ServiceUnreachable(self.url, f"{type(error).__name__}: {error}")


def _shown_on_a_bar(stack: ExitStack) -> Callable[[Job], None]:
    from tuner.bar import JobBar  # rich: what shows nothing does without

    bar = stack.enter_context(JobBar())

    def show(job: Job) -> None:
        bar.show(
            state=job.state,
            requested=job.trials.requested,
            measured=job.trials.measured,
            failed=job.trials.failed,
            best_us=job.best.time_us if job.best else None,
            eta_seconds=job.eta_seconds,
        )

    return show


def _path(job: Job | str) -> str:
    return f"/jobs/{quote(job.id if isinstance(job, Job) else job, safe='')}"


def _refusal(answer: httpx2.Response) -> ServiceError:
    try:
        problem = answer.json()
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        said = answer.text.strip().partition("\n")[0][:200] or answer.reason_phrase
        return ServiceError(answer.status_code, said)
    kind = NotTuned if problem.get("type") == _NOT_TUNED else ServiceError
    return kind(answer.status_code, detail, problem)

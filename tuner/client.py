"""The service from Python: order a job, wait for it, ask for the best, call its library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from tuner import load as loading
from tuner.answers import Answer, Artifact, Best, Job, Trial, Trials
from tuner.cache import Cache
from tuner.errors import (
    JobFailed,
    NoLibrary,
    NotTuned,
    ServiceError,
    ServiceUnreachable,
    StillRunning,
)
from tuner.load import Library

OUTAGE_SECONDS = 30.0
"""How long a wait bears with a service that has answered before: the time to start it anew."""
TRIALS_PER_PAGE = 1000
_NOT_TUNED = "urn:convtune:problem:not-tuned"

A = TypeVar("A", bound=Answer)


class Client:
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
        **shape: Any,
    ) -> Job:
        """Order a job: ``client.submit("conv1d", M=16384, N=32)``. The workload's fields are given
        by name, in a mapping, or both. An equal job that is there already is the answer."""
        order = {
            "operator": operator,
            "workload": {**(workload or {}), **shape},
            "trials": trials,
            "target": target,
            "search": search,
            "on_existing": on_existing,
            "budget_seconds": budget_seconds,
            "seed": seed,
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
    ) -> Job:
        """The job once it has succeeded. ``progress`` is called with each new state of it.

        Raises JobFailed where it fails or is cancelled, StillRunning after ``timeout`` seconds.
        """
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
            if progress is not None and current != seen:
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
        be ``nearest``, ``target`` ``cpu`` or ``cuda``. Raises NotTuned."""
        filters = {"match": match, "target": target, "device": device}
        query = {name: text for name, text in filters.items() if text is not None}
        query = {**(workload or {}), **shape, **query}
        return self._ask(Best, "GET", f"/best/{quote(operator, safe='')}", params=query)

    def load(self, best: Best) -> Library:
        """The best's library, downloaded where it is not in the cache. Raises NoLibrary for a
        nearest match, and what :func:`tuner.load.load` raises."""
        library, manifest = best.artifacts.library, best.artifacts.manifest
        if library is None or manifest is None:
            raise NoLibrary(
                f"this {best.match} best of {best.operator} has no library of its own; "
                "submit the shape and load its best"
            )
        return loading.load(self.fetch(library, ".so"), self.fetch(manifest, ".json"))

    def fetch(self, artifact: Artifact, suffix: str = "") -> Path:
        """An artifact's file in the cache. Raises BrokenArtifact where the bytes that come, or lie
        there, are not those of its sha256."""
        name = artifact.sha256 + suffix
        found = self.cache.find(name, artifact.sha256)
        if found is not None:
            return found
        try:
            with self._http.stream("GET", artifact.url) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _refusal(answer)
                return self.cache.keep(name, artifact.sha256, artifact.size, answer.iter_bytes())
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, kind: type[A], method: str, path: str, **request: Any) -> A:
        try:
            answer = self._http.request(method, path, **request)
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            raise _refusal(answer)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise ServiceError(
                answer.status_code,
                f"what answers at {self.url} is no convtune service that this client knows: "
                f"its answer to {method} {path} is no {kind.__name__}",
            ) from error

    def _unreachable(self, error: httpx2.RequestError) -> ServiceUnreachable:
        return ServiceUnreachable(self.url, f"{type(error).__name__}: {error}")


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

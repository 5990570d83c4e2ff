"""The service from Python: order a job, wait for it, ask for the best, call its library."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx2

import templates
from db.contract.best import ArtifactLink
from db.contract.job import Shown
from db.contract.order import PREDICTED, PREDICTION
from templates.errors import TemplateError
from templates.workload import in_text
from tuner.client import connection
from tuner.client.answers import Best, Job, Signer, Signers, Trial, Trials
from tuner.client.cache import Cache
from tuner.client.listening import LOOK_SECONDS, Listening, told
from tuner.client.models import ModelCalls
from tuner.client.parsed import parsed, pieces, read, refusal, stranger
from tuner.client.source import Source
from tuner.errors import (
    JobFailed,
    NoCompiler,
    NotTuned,
    ServiceUnreachable,
    StillRunning,
)
from tuner.job.order import listed, sendable, split, taking_terms
from tuner.library import trust
from tuner.library.pins import Pins
from tuner.library.signing_key import default_path, own_public_key
from tuner.library.trust import Trusted
from tuner.plain import plain

if TYPE_CHECKING:
    from tuner.client.local import Local

TRIALS_PER_PAGE = 1000
NOT_MODIFIED = 304
KINDS = ("cpu", "cuda")

A = TypeVar("A", bound=Shown)


class Client(ModelCalls, Source):
    """A service at ``url``. ``timeout`` is what each request may take, in seconds; ``cache`` the
    folder for downloads, by default convtune in the user's cache folder; ``key`` an API key, where
    the service asks for one, by default TUNER_API_KEY's. ``signers`` are the public keys whose
    libraries are loaded, by default those of TUNER_SIGNERS; where neither names any, this machine's
    own and those that the service had when a library of its was first loaded here.

    Every call raises ServiceError if the service refuses, with the fields at fault, and
    ServiceUnreachable if none answers. Close it, or use it in a ``with``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        timeout: float = 30.0,
        cache: Path | None = None,
        key: str | None = None,
        signers: Collection[str] | None = None,
    ) -> None:
        self._named = trust.named(signers)
        self._http = connection.opened(url, timeout, key)
        self._timeout = timeout
        self.url = connection.shown(self._http)  # it stands in messages
        self.where = self.url
        self.cache = Cache(cache)
        self._local: Local | None = None

    @taking_terms
    def submit(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Job:
        """Order a job: ``client.submit("conv1d", M=16384, N=32)``. The workload's fields are given
        by name, in a mapping, or both. An equal job that is there already is the answer. With
        ``patience`` the search ends after so many trials in a row that were no faster; with
        ``templates`` it keeps to those, as ``["direct"]`` if a transform's errors matter. Raises
        BadOrder for a value that no order can hold, ServiceError for one that the service
        refuses."""
        said, shape = split(given)
        order = plain({"operator": operator, "workload": {**(workload or {}), **shape}})
        order |= sendable(said)
        return self._ask(Job, "POST", "/jobs", json=order)

    def job(self, job: Job | str) -> Job:
        """The job as it is now."""
        return self._ask(Job, "GET", _path(job))

    def wait(
        self,
        job: Job | str,
        timeout: float | None = None,
        progress: Callable[[Job], object] | None = None,
        *,
        bar: bool = False,
    ) -> Job:
        """The job once it has succeeded. It is asked for once, then its events are listened to, on
        new connections where one breaks. ``progress`` is called with each new state of it; with
        ``bar``, it is shown on standard error.

        Raises JobFailed if it fails or is cancelled, StillRunning after ``timeout`` seconds,
        ServiceUnreachable if not even a first answer came by then.
        """
        with ExitStack() as stack:
            show = _shown_on_a_bar(stack) if bar else lambda _: None
            states = stack.enter_context(closing(self._states(job, timeout)))
            for current in states:
                show(current)
                if progress is not None:
                    progress(current)
        if timeout is not None and not current.ended:
            raise StillRunning(current, timeout)
        if current.state != "succeeded":
            raise JobFailed(current)
        return current

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
        templates: Sequence[str] | None = None,
        threads: int | None = None,
        parallel: bool = False,
        **shape: Any,
    ) -> Best:
        """The best for a shape: ``client.best("conv1d", M=16384, N=32)``, or
        ``client.best(job.operator, job.workload)``; of several devices the fastest. ``match`` may
        be ``nearest``, or ``predicted``: for a shape without a best a short job is then ordered and
        waited for, which builds, checks and times what is expected to be fast. ``target`` is
        ``cpu`` or ``cuda``, ``templates`` those that may have given it, and ``best.arithmetic``
        says what follows from the one that did; ``threads`` is how many of a CPU it may run on, and
        ``parallel`` asks for one on several, even if one is faster, for programs that keep them
        busy. An answer is kept in the cache with its ETag, and sent anew only when it has changed.
        Raises NotTuned, and for a prediction what :meth:`wait` raises."""
        asked = {**(workload or {}), **shape}
        filters = {
            "match": match,
            "target": target,
            "device": device,
            "templates": None if templates is None else ",".join(listed(templates)),
            "threads": threads,
            "parallel": parallel or None,
        }
        fields = plain({**asked, **filters})
        query = {name: in_text(value) for name, value in fields.items() if value is not None}

        def look() -> Best:
            path = f"/best/{quote(operator, safe='')}"
            best = self._ask(Best, "GET", path, kept=True, params=query)
            self._must_answer(best, operator, asked, target)
            if templates is not None and best.template not in templates:
                why = f"asked for {', '.join(templates)}, it answers with {best.template}"
                raise stranger(None, self.url, why)
            return best

        try:
            return look()
        except NotTuned:
            if match != PREDICTED:
                raise
        terms = {**PREDICTION, "target": target or "auto", "templates": templates}
        self.wait(self.submit(operator, asked, **terms))
        return look()

    def signers(self) -> list[Signer]:
        """The keys that the service's workers sign with, trusted here or not, oldest first."""
        return self._ask(Signers, "GET", "/signers").items

    def verify_nearest(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        target: str = "auto",
        device: str | None = None,
        templates: Sequence[str] | None = None,
        **shape: Any,
    ) -> Job:
        """Order the nearest match to be verified: a worker builds, checks and times the closest
        tuned shape's configuration for this shape, one trial and no search. Once the job has
        succeeded :meth:`best` answers with its time and its library. Where the shape has a best
        already, its job is the answer. Raises NotTuned if no tuned shape can lend."""
        order = plain(
            {"operator": operator, "workload": {**(workload or {}), **shape}, "target": target}
        )
        if device is not None:
            order["device"] = device
        if templates is not None:
            order["templates"] = listed(templates)
        return self._ask(Job, "POST", "/jobs/nearest", json=order)

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
        files of its best in the cache, where :meth:`load` finds them. The worker's processes stay
        for the next search until the client is closed. Raises NoCompiler if only the client is
        installed."""
        try:
            from tuner.client.local import Local
            from tuner.settings import Settings
        except ImportError as error:
            raise NoCompiler(str(error)) from error
        if find_spec("tvm") is None:
            raise NoCompiler("apache-tvm is not installed")
        settings = Settings()
        if self._local is None or self._local.settings != settings:
            self._end_local()
            self._local = Local(settings, self.cache.folder)
        best = self._local.tune(operator, workload, bar=bar, **order)
        self._local.load(best)
        if self._named is not None:
            self._named |= trust.own(default_path()).keys  # load() takes what was tuned here
        return best

    def close(self) -> None:
        self._http.close()
        self._end_local()

    def _end_local(self) -> None:
        if self._local is not None:
            self._local.close()
            self._local = None

    def _must_answer(
        self, best: Best, operator: str, asked: Mapping[str, Any], target: str | None
    ) -> None:
        """Raises ServiceError if that is the answer to another question: a library of another
        workload can be rightly signed too."""
        try:
            wanted = templates.operator(operator).workload.model_validate_strings(
                {name: in_text(value) for name, value in asked.items() if value is not None}
            )
        except (TemplateError, ValueError) as error:
            why = f"it takes a workload that this client does not: {error}"
            raise stranger(None, self.url, why) from error
        if (best.operator, best.workload) != (operator, wanted.model_dump()):
            why = f"asked for {wanted.key}, it answers with {best.operator} {best.workload}"
            raise stranger(None, self.url, why)
        if target in KINDS and best.device.kind != target:
            raise stranger(None, self.url, f"asked for {target}, it answers for {best.device.kind}")

    def _trusted(self, signer: str) -> Trusted:
        if self._named is not None:
            return trust.by_name(self._named)
        if signer == own_public_key(default_path()):  # tuned here: the service need not be there
            return trust.own(default_path())
        pins = Pins()
        pinned = pins.of(self.url)
        if pinned is None:
            keys = [each.public_key for each in self.signers()]
            pinned = pins.meet(self.url, keys) if keys else frozenset()
        return trust.served(self.url, pinned)

    @contextmanager
    def _content(self, artifact: ArtifactLink) -> Iterator[Iterator[bytes]]:
        try:
            with self._http.stream("GET", artifact.url) as answer:
                if not answer.is_success:
                    raise refusal(answer, read(answer, self.url))
                yield pieces(answer, self.url)
        except httpx2.RequestError as error:
            raise ServiceUnreachable.by(self.url, error) from error

    def _states(self, job: Job | str, timeout: float | None) -> Generator[Job]:
        """The job as it is now, and each time that it changes, to its end or to the timeout's."""
        deadline, look = None, self._timeout
        if timeout is not None:
            deadline = time.monotonic() + timeout
            look = min(look, max(timeout, LOOK_SECONDS))
        current = self._ask(Job, "GET", _path(job), timeout=look)
        if current.waiting:
            told(current.id, current.waiting)
        yield current
        if current.ended or (deadline is not None and time.monotonic() >= deadline):
            return
        with Listening(self._http, self.url, current) as listening:
            while not current.ended and (later := listening.next(deadline)) is not None:
                if later != current:
                    current = later
                    yield current

    def _ask(self, kind: type[A], method: str, path: str, *, kept: bool = False, **given: Any) -> A:
        request = self._http.build_request(method, path, **given)
        url = f"{self.url}{request.url.raw_path.decode()}"  # without a password
        held = self.cache.answer(url) if kept else None
        if held is not None:
            request.headers["If-None-Match"] = held[0]
        try:
            with closing(self._http.send(request, stream=True)) as answer:
                content = read(answer, self.url)
        except httpx2.RequestError as error:
            raise ServiceUnreachable.by(self.url, error) from error
        if held is not None and answer.status_code == NOT_MODIFIED:
            content = held[1]
        elif not answer.is_success:
            raise refusal(answer, content)
        what = f"its answer to {method} {path}"
        found = parsed(kind, content, answer.status_code, self.url, what)
        etag = answer.headers.get("ETag")
        if kept and etag and content is not (held and held[1]):
            self.cache.keep_answer(url, etag, content)
        return found


def _shown_on_a_bar(stack: ExitStack) -> Callable[[Job], None]:
    from tuner.terminal.bar import JobBar  # rich: what shows nothing does without

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

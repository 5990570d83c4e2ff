"""HTTP client of the service: order a job, wait for it, ask for the best, load its library."""

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
from db.contract.order import PREDICTED
from templates.errors import TemplateError
from templates.workload import in_text
from tuner.client import connection
from tuner.client.answers import Best, Job, Signer, Signers, Trial, Trials
from tuner.client.cache import Cache
from tuner.client.listening import (
    MIN_REQUEST_SECONDS,
    JobListener,
    log_waiting_reason,
    shown_on_a_bar,
)
from tuner.client.models import ModelCalls
from tuner.client.responses import (
    artifact_error,
    error_from_response,
    iter_content,
    parse,
    read_content,
    unexpected_answer,
)
from tuner.client.source import Source
from tuner.errors import JobFailed, NoCompiler, NotTuned, ServiceUnreachable, StillRunning
from tuner.job.order import (
    joined,
    split_terms,
    template_names,
    terms_as_json,
    with_terms_signature,
)
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
    """Client of the convtune service at ``url``.

    ``timeout`` limits each request, in seconds. ``cache`` is the folder for downloads, by default
    convtune's folder in the user's cache folder. ``key`` is an API key, if the service asks for
    one, by default the one in TUNER_API_KEY. ``signers`` are the public keys whose libraries are
    loaded, by default those in TUNER_SIGNERS. If neither names any, the client trusts this
    machine's own key, and the keys that the service had when one of its libraries was first loaded
    here.

    Every call raises ServiceError, with the fields at fault, if the service refuses it, and
    ServiceUnreachable if no service answers. Close the client, or use it in a ``with``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        timeout: float = 30.0,
        cache: Path | None = None,
        key: str | None = None,
        signers: Collection[str] | None = None,
    ) -> None:
        self._named_keys = trust.named_keys(signers)
        self._connection = connection.Connection(url, timeout, key)
        self._timeout = timeout
        self.url = connection.url_without_password(self._connection.http)  # it is part of messages
        self.where = self.url
        self.cache = Cache(cache)
        self._local: Local | None = None

    @with_terms_signature
    def submit(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Job:
        """Order a job: ``client.submit("conv1d", M=16384, N=32)``.

        Each field of the workload is given by name or in the mapping. If the service has an equal
        job already, that job is returned. ``patience`` ends the search after that many trials in a
        row that were no faster. ``templates`` restricts the search to these templates, for example
        to ``["direct"]`` if the rounding errors of a transform matter.

        Raises BadOrder for a value that no order can hold, ServiceError for a value that the
        service refuses.
        """
        terms, shape = split_terms(given)
        order = plain({"operator": operator, "workload": joined(workload, shape)})
        order |= terms_as_json(terms)
        return self._ask(Job, "POST", "/jobs", json=order)

    def job(self, job: Job | str) -> Job:
        """Return the job in its current state."""
        return self._ask(Job, "GET", _path(job))

    def wait(
        self,
        job: Job | str,
        timeout: float | None = None,
        progress: Callable[[Job], object] | None = None,
        *,
        bar: bool = False,
    ) -> Job:
        """Wait until the job has succeeded and return it.

        The client asks for the job once and then listens to its events; if the connection breaks,
        it opens another one. ``progress`` is called with each new state of the job. With ``bar``, a
        progress bar is shown on standard error.

        Raises JobFailed if the job fails or is cancelled, StillRunning after ``timeout`` seconds,
        ServiceUnreachable if not even a first answer came by then.
        """
        with ExitStack() as stack:
            show = shown_on_a_bar(stack) if bar else lambda _: None
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
        """Cancel the job and return it. If it runs, it stays so until its worker has seen that."""
        return self._ask(Job, "POST", f"{_path(job)}/cancel")

    def trials(self, job: Job | str, status: str | None = None) -> Iterator[Trial]:
        """Yield the trials of a job, of one ``status`` if given, first to last, page by page."""
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
        """Return the best for a shape; if several devices have one, the fastest.

        Examples: ``client.best("conv1d", M=16384, N=32)``, ``client.best(job.operator,
        job.workload)``. ``match`` is ``exact``, ``nearest`` or ``predicted``. If the shape has no
        best, ``predicted`` orders a short job and waits for it; the job builds, checks and times
        the configurations that are expected to be fast. ``target`` is ``cpu`` or ``cuda``,
        ``device`` a device's name or id. ``templates`` restricts the answer to bests of these
        templates; ``best.arithmetic`` says how the best's template computes. ``threads`` is the
        largest number of CPU threads that the best may use. ``parallel`` prefers a best on several
        threads, even if one thread is faster, for programs that keep the threads busy.

        The answer is kept in the cache with its ETag and downloaded again only if it has changed.
        Raises NotTuned, and for a prediction whatever :meth:`wait` raises.
        """
        asked = joined(workload, shape)
        filters = {
            "match": match,
            "target": target,
            "device": device,
            "templates": None if templates is None else ",".join(template_names(templates)),
            "threads": threads,
            "parallel": parallel or None,
        }
        fields = plain({**asked, **filters})
        query = {name: in_text(value) for name, value in fields.items() if value is not None}
        path = f"/best/{quote(operator, safe='')}"

        def look() -> Best:
            best = self._ask(Best, "GET", path, kept=True, params=query)
            self._must_answer(best, operator, asked, target)
            if templates is not None and best.template not in templates:
                why = f"asked for {', '.join(templates)}, it answers with {best.template}"
                raise unexpected_answer(None, self.url, why)
            return best

        try:
            return look()
        except NotTuned as missing:
            if match != PREDICTED or "tune" not in missing.problem:
                raise
            order = missing.problem["tune"]["body"]
        self.wait(self._ask(Job, "POST", "/jobs", json=order))
        return look()

    def signers(self) -> list[Signer]:
        """Return the keys with which the service's workers sign, oldest first.

        Keys that are not trusted here are among them.
        """
        return self._ask(Signers, "GET", "/signers").items

    def verify_nearest(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        target: str = "auto",
        device: str | None = None,
        for_device: str | None = None,
        templates: Sequence[str] | None = None,
        threads: int | None = None,
        parallel: bool = False,
        **shape: Any,
    ) -> Job:
        """Order a job that verifies the nearest match for this shape.

        A worker builds, checks and times the configuration of the closest tuned shape: one trial
        and no search. ``for_device`` names the device of that worker; the configuration may be from
        another device. The other filters are those of :meth:`best`. Once the job has succeeded,
        :meth:`best` returns time and library for the same filters. If the shape has a best already,
        the job of that best is returned. Raises NotTuned if no tuned shape has a configuration that
        is valid for this one.
        """
        names = None if templates is None else template_names(templates)
        filters: dict[str, Any] = {"device": device, "for_device": for_device, "threads": threads}
        filters |= {"templates": names, "parallel": parallel or None}
        order = plain(
            {"operator": operator, "workload": joined(workload, shape), "target": target}
            | {name: value for name, value in filters.items() if value is not None}
        )
        return self._ask(Job, "POST", "/jobs/nearest", json=order)

    def tune(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        bar: bool = False,
        **order: Any,
    ) -> Best:
        """Tune a shape in this process, without the service, and return its best.

        ``client.tune("conv1d", M=16384, N=32)`` takes the options of :meth:`submit`. The job is
        stored in the database of TUNER_DATABASE_URL, the files of its best in the cache, where
        :meth:`load` finds them. The worker's processes stay for the next search until the client
        is closed. Raises NoCompiler if only the client is installed.
        """
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
        if self._named_keys is not None:
            self._named_keys |= trust.own(default_path()).keys  # so that load() accepts the best
        return best

    def close(self) -> None:
        """Close the connection and end the processes of :meth:`tune`."""
        self._connection.http.close()
        self._end_local()

    def _end_local(self) -> None:
        if self._local is not None:
            self._local.close()
            self._local = None

    def _must_answer(
        self, best: Best, operator: str, asked: Mapping[str, Any], target: str | None
    ) -> None:
        """Raise ServiceError if the best is of another workload or kind of device than asked for.

        A signature does not show that: the library of another workload may be rightly signed, too.
        """
        try:
            wanted = templates.operator(operator).workload.model_validate_strings(
                {name: in_text(value) for name, value in asked.items() if value is not None}
            )
        except (TemplateError, ValueError) as error:
            why = f"it takes a workload that this client does not: {error}"
            raise unexpected_answer(None, self.url, why) from error
        if (best.operator, best.workload) != (operator, wanted.model_dump()):
            why = f"asked for {wanted.key}, it answers with {best.operator} {best.workload}"
            raise unexpected_answer(None, self.url, why)
        if target in KINDS and best.device.kind != target:
            raise unexpected_answer(
                None, self.url, f"asked for {target}, it answers for {best.device.kind}"
            )

    def _trusted(self, signer: str) -> Trusted:
        if self._named_keys is not None:
            return trust.by_name(self._named_keys)
        if signer == own_public_key(default_path()):  # tuned here: no need to ask the service
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
            with self._connection.http.stream("GET", artifact.url) as answer:
                if not answer.is_success:
                    raise artifact_error(answer, read_content(answer, self.url))
                yield iter_content(answer, self.url)
        except httpx2.RequestError as error:
            raise ServiceUnreachable.from_error(self.url, error) from error

    def _states(self, job: Job | str, timeout: float | None) -> Generator[Job]:
        """Yield the job in its current state and after each change, to its end or the timeout."""
        deadline, look = None, self._timeout
        if timeout is not None:
            deadline = time.monotonic() + timeout
            look = min(look, max(timeout, MIN_REQUEST_SECONDS))
        current = self._ask(Job, "GET", _path(job), timeout=look)
        if current.waiting:
            log_waiting_reason(current.id, current.waiting)
        yield current
        if current.ended or (deadline is not None and time.monotonic() >= deadline):
            return
        with JobListener(self._connection.http, self.url, current) as listener:
            while not current.ended and (later := listener.next(deadline)) is not None:
                if later == current:
                    continue
                current = later
                if current.waiting:
                    log_waiting_reason(current.id, current.waiting)
                yield current

    def _ask(self, kind: type[A], method: str, path: str, *, kept: bool = False, **given: Any) -> A:
        http = self._connection.http
        request = http.build_request(method, path, **given)
        url = f"{self.url}{request.url.raw_path.decode()}"  # without a password
        held = self.cache.answer(url) if kept else None
        if held is not None:
            request.headers["If-None-Match"] = held[0]
        try:
            with closing(http.send(request, stream=True)) as answer:
                content = read_content(answer, self.url)
        except httpx2.RequestError as error:
            raise ServiceUnreachable.from_error(self.url, error) from error
        if held is not None and answer.status_code == NOT_MODIFIED:
            content = held[1]
        elif not answer.is_success:
            raise error_from_response(answer, content)
        what = f"its answer to {method} {path}"
        found = parse(kind, content, answer.status_code, self.url, what)
        etag = answer.headers.get("ETag")
        if kept and etag and content is not (held and held[1]):
            self.cache.keep_answer(url, etag, content)
        return found


def _path(job: Job | str) -> str:
    return f"/jobs/{quote(job.id if isinstance(job, Job) else job, safe='')}"

"""Tuning without a service: jobs are stored in a database and run in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from db import models
from db.contract.best import ArtifactLink
from db.contract.model import ModelShown
from db.contract.order import PREDICTED, PREDICTION, Terms
from db.results import artifacts as files
from db.results import best as bests
from db.results.best_fields import best_fields
from db.sql.engine import open_engine
from db.sql.errors import StorageError
from db.sql.schema import check_schema, migrate
from db.sql.url import without_passwords
from templates.workload import Workload
from tuner.client.answers import Best
from tuner.client.cache import Cache
from tuner.client.source import Source
from tuner.device.device import Device
from tuner.errors import BadOrder, ModelFailed, NotTuned, WrongArgument
from tuner.job.model_order import make_model_order
from tuner.job.order import (
    make_order,
    only_terms,
    parse_terms,
    restricted,
    split_terms,
    with_terms_signature,
    workload_of,
)
from tuner.library import trust
from tuner.library.trust import Trusted
from tuner.process import logs
from tuner.process.stopping import interruptible
from tuner.settings import Settings
from tuner.terminal.bar import JobBar
from tuner.terminal.report import arithmetic
from tuner.terminal.untuned import not_tuned_message
from tuner.worker.in_process import device_for, run_to_success, submit_job
from tuner.worker.kept_worker import KeptWorker
from tuner.worker.models_in_process import run_model, submit_model

MATCHES = ("exact", PREDICTED)


class Local(Source):
    """A database in the place of a service, with most of the interface of
    :class:`tuner.client.Client`.

    The database is that of ``settings``, by default of TUNER_DATABASE_URL. It holds what ``tuner
    tune``, workers and :meth:`tune` have found. ``cache`` is the folder for libraries, by default
    convtune's folder in the user's cache folder. Libraries are loaded if this machine's own key or
    one of TUNER_SIGNERS signed them.

    The first search starts the processes of a worker. They stay for the next search until the
    object is closed: close it, or use it in a ``with``. Raises WrongArgument if ``settings`` is no
    :class:`Settings`, for example a database's URL.
    """

    def __init__(self, settings: Settings | None = None, cache: Path | None = None) -> None:
        if not isinstance(settings, Settings | None):
            raise WrongArgument(
                f"settings is a {type(settings).__name__}: give Settings(database_url=…), or set "
                "TUNER_DATABASE_URL"
            )
        self.settings = settings or Settings()
        self.cache = Cache(cache)
        self._named_keys = trust.named_keys(None) or frozenset()
        self._engine = open_engine(self.settings.database_url)
        self._worker = KeptWorker(self._engine, self.settings)
        self.where = without_passwords(self._engine.url)
        try:
            migrate(self._engine)
            check_schema(self._engine)
        except StorageError:
            self.close()
            raise

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
        bar: bool = False,
        **shape: Any,
    ) -> Best:
        """Return the best for a shape, like :meth:`tuner.client.Client.best`.

        ``match`` is ``exact`` or ``predicted``. If there is no best, ``predicted`` tunes here, and
        ``bar`` then shows a progress bar on standard error. Raises NotTuned, and BadOrder for
        arguments that make no workload.
        """
        if match not in MATCHES:
            raise BadOrder("match", f"must be one of {', '.join(MATCHES)}, but it is {match!r:.80}")
        wanted = workload_of(operator, workload, shape)
        names = restricted(templates, operator, target or "auto")
        look = partial(
            bests.lookup,
            self._engine,
            wanted.key,
            target,
            device,
            names,
            threads,
            parallel=parallel,
        )
        found = look()
        if not found and match == PREDICTED:
            how = {**PREDICTION, "target": target or "auto", "templates": names}
            self._tune(wanted, parse_terms(how), bar)
            found = look()
        if not found:
            raise NotTuned(None, not_tuned_message(self._engine, wanted, target, device, names))
        return Best(verified=True, **best_fields(found, arithmetic(found[0])))

    def bests(
        self, operator: str, workload: Mapping[str, Any] | None = None, *,
        target: str | None = None, device: str | None = None,
    ) -> list[Best]:  # fmt: skip
        """Return the best of the workload on each device, fastest first.

        Without a ``workload``, return the bests of every workload of the operator. Raises BadOrder
        for a mapping that is no workload.
        """
        if workload is None:
            found = bests.bests_of_operator(self._engine, operator, target, device)
        else:
            key = workload_of(operator, workload).key
            found = bests.lookup(self._engine, key, target, device)
        return [Best(verified=True, **best_fields([each], None)) for each in found]

    @with_terms_signature
    def tune(
        self,
        operator: str,
        workload: Mapping[str, Any] | None = None,
        *,
        bar: bool = False,
        **given: Any,
    ) -> Best:
        """Tune a shape in this process and return its best.

        The options are those of :meth:`tuner.client.Client.submit`. ``bar`` shows a progress bar on
        standard error. If the search is interrupted, or the main thread ends while another thread
        searches, the job is given back: the same call continues from its stored trials. If a living
        worker can continue it, the exception says so in a note. Raises BadOrder before anything is
        stored, and TunerError if there is no winner.
        """
        terms, shape = split_terms(given)
        wanted, how = workload_of(operator, workload, shape), parse_terms(terms)
        device = self._tune(wanted, how, bar)
        return self.best(
            operator,
            wanted.model_dump(),
            target=device.kind,
            device=device.name,
            templates=how.templates,
        )

    def _tune(self, wanted: Workload, how: Terms, bar: bool) -> Device:
        """Run an order to its end and return the device on which it ran."""
        if not structlog.is_configured():
            logs.configure_warnings_only(self.settings.log_format)
        device = device_for(how)
        order = make_order(wanted, how, device.kind)
        with interruptible(), JobBar() if bar else nullcontext() as shown:
            job = submit_job(self._engine, self.settings, order, device)
            run_to_success(self._worker, device, job, shown)
        return device

    @with_terms_signature
    def tune_model(
        self,
        name: str,
        workloads: Sequence[Mapping[str, Any]],
        *,
        bar: bool = False,
        **terms: Any,
    ) -> ModelShown:
        """Tune many workloads in this process, one after the other, and return them as a model.

        Each workload is a mapping such as ``{"operator": "conv1d", "workload": {"M": 16384, "N":
        32}, "calls": 3}``. Raises BadOrder before anything is stored. If a job has no winner, the
        others are still tuned, and ModelFailed is raised at the end.
        """
        how = parse_terms(only_terms(terms))
        if not structlog.is_configured():
            logs.configure_warnings_only(self.settings.log_format)
        device = device_for(how)
        order = make_model_order(name, workloads, how, device.kind)
        with interruptible():
            model = submit_model(self._engine, self.settings, order, device)
            shown = JobBar if bar else nullcontext
            run_model(self._worker, device, model, shown, lambda _: None)
        ended = models.get(self._engine, model.id)
        told = ModelShown(**models.to_fields(ended, models.layers(self._engine, ended)))
        if told.state != "succeeded":
            raise ModelFailed(told)
        return told

    def close(self) -> None:
        """End the worker's processes and close the database."""
        self._worker.close()
        self._engine.dispose()

    def _trusted(self, signer: str) -> Trusted:
        return trust.own(self.settings.signing_key, self._named_keys)

    @contextmanager
    def _content(self, artifact: ArtifactLink) -> Iterator[Iterator[bytes]]:
        yield iter([files.get(self._engine, artifact.sha256).content])

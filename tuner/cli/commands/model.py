"""``tuner model``: tune the layers of a model as one order, and list, show and cancel models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from db.contract.order import Terms, terms_of
from tuner.cli.common import (
    JsonOption,
    Target,
    TemplateOption,
    database,
    examples,
    print_json,
    say,
    show,
)
from tuner.cli.contract_options import with_options
from tuner.cli.model_workloads import Dtype, Layout, Mode
from tuner.cli.term_options import (
    TERMS_WITH_OWN_OPTIONS,
    ColdOption,
    RetuneOption,
    terms_from_options,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from db.contract.model import ModelShown

LayersArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE.json|timm:NAME|MODULE:CALLABLE",
        help='a file with a list of {"operator": …, "workload": {…}, "calls": …}; a model of '
        "timm's; or a function that builds a PyTorch model",
    ),
]
BatchOption = Annotated[
    int | None, typer.Option(min=1, help="number of inputs in a call of the model; by default 1")
]
DtypeOption = Annotated[
    Dtype | None, typer.Option(help="element type of a model that is built; by default float32")
]
LayoutOption = Annotated[
    Layout | None,
    typer.Option(help="layout of its input in memory; by default with the channels first"),
]
InputOption = Annotated[
    str | None,
    typer.Option(
        "--input", metavar="CxHxW", help="its input's shape, CxHxW or CxM, without the batch; by "
        "default timm's own",
    ),
]  # fmt: skip
ModeOption = Annotated[
    Mode | None,
    typer.Option(help="inference: outputs only; training: gradients, too"),
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="its id, or the beginning of it, as `tuner model list` says"
    ),
]


def tune(
    layers: LayersArgument,
    *,
    batch: BatchOption = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    shape: InputOption = None,
    mode: ModeOption = None,
    target: Annotated[
        Target,
        typer.Option(
            help="kind of device; auto: here a GPU if there is one, at a service any worker's"
        ),
    ] = Target.auto,
    cold: ColdOption = False,
    template: TemplateOption = None,
    retune: RetuneOption = False,
    name: Annotated[
        str | None,
        typer.Option(help="your own name for the model; by default the file's or the model's"),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(metavar="URL", help="have the workers of this service tune, not this machine"),
    ] = None,
    as_json: JsonOption = False,
    **others: Any,
) -> None:
    """Order a job for each workload of a file or a model and run them all.

    They run here, or with --service by the workers of a service. A model that is named is built
    with random weights and called on the CPU without data, so that this machine needs no GPU for
    it. A workload that is tuned already is not tuned again. The exit code is 1 if a job does not
    succeed.
    """
    from tuner.cli.model_report import show_model
    from tuner.cli.model_workloads import name_and_workloads
    from tuner.errors import ModelFailed

    how = terms_from_options(target, cold, template, retune, others)
    usual, workloads = name_and_workloads(layers, batch, dtype, layout, shape, mode)
    called = name or usual
    found = (
        _tune_here(called, workloads, how)
        if service is None
        else _tune_at_service(service, called, workloads, how)
    )
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        show_model(found)
    if found.state != "succeeded":
        raise ModelFailed(found)


def _tune_here(name: str, workloads: Sequence[Mapping[str, Any]], how: Terms) -> ModelShown:
    """Order the model in the database and run its jobs in this process."""
    from db import models
    from tuner.job.model_order import make_model_order
    from tuner.process import logs
    from tuner.process.stopping import Stopped, stop_on_signals
    from tuner.settings import Settings
    from tuner.terminal.bar import JobBar
    from tuner.worker.in_process import device_for
    from tuner.worker.kept_worker import KeptWorker
    from tuner.worker.models_in_process import run_model, submit_model

    settings = Settings()
    logs.configure_warnings_only(settings.log_format)
    device = device_for(how)
    stop_on_signals()
    order = make_model_order(name, workloads, how, device.kind)
    with database(settings) as engine, closing(KeptWorker(engine, settings)) as kept:
        model = submit_model(engine, settings, order, device)
        say(f"model {model.id}, {len(order.layers)} workloads")
        try:
            run_model(kept, device, model, JobBar, say)
        except Stopped:
            raise Stopped(
                f"stopped; the same command goes on, and so does any worker; "
                f"to cancel it: tuner model cancel {model.id}"
            ) from None
        return _shown(engine, models.get(engine, model.id))


def _tune_at_service(
    service: str, name: str, workloads: Sequence[Mapping[str, Any]], how: Terms
) -> ModelShown:
    """Order the model from the service at a URL and wait until its workers have run the jobs."""
    from tuner.client import Client
    from tuner.errors import ModelFailed
    from tuner.process.stopping import Stopped

    with Client(service) as client:
        model = client.submit_model(name, workloads, **terms_of(how))
        say(f"model {model.id}: {client.url.rstrip('/')}/ui/models/{model.id}")
        try:
            return client.wait_model(model, bar=True)
        except ModelFailed as failed:
            return failed.model
        except KeyboardInterrupt:
            raise Stopped(f"no longer waiting; model {model.id} goes on") from None


def list_models(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="the most models to list")] = 20,
    cursor: Annotated[
        str | None, typer.Option(help="continue after an earlier list; give its next_cursor")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List models, newest first: id, state, jobs that have ended, trials, name."""
    from db import models
    from db.contract.model import ModelListed
    from tuner.cli.model_report import show_models

    with database() as engine:
        page = models.list_models(engine, limit, cursor)
    found = [ModelListed(**model.to_fields()) for model in page.items]
    if as_json:
        items = [model.model_dump(mode="json") for model in found]
        print_json({"items": items, "next_cursor": page.next_cursor})
        return
    if not found:
        say("there are no models; order one: tuner model tune, or POST /models of a service")
    show_models(found)
    if page.next_cursor is not None:
        show(f"older ones: --cursor {page.next_cursor}")


def show_one(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show one model: its layers, their bests beside PyTorch's times, and the gain."""
    from db import models
    from tuner.cli.model_report import show_model

    with database() as engine:
        found = _shown(engine, models.get(engine, models.resolve_id(engine, model)))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        show_model(found)


def cancel(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Cancel a model's jobs, except those that other orders share.

    What was measured is kept.
    """
    from db import models

    with database() as engine:
        ended = models.cancel(engine, models.resolve_id(engine, model))
        if as_json:
            print_json(_shown(engine, ended).model_dump(mode="json"))
        elif ended.ended:
            show(f"cancelled {ended.id}")
        else:
            show(f"{ended.id} will stop after the trials that run")


def _shown(engine: Engine, model: Any) -> ModelShown:
    from db import models
    from db.contract.model import ModelShown

    return ModelShown(**models.to_fields(model, models.layers(engine, model)))


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Tune a model's layers as one order.", no_args_is_help=True)
    group.command(
        "tune",
        epilog=examples(
            "tuner model tune layers.json --trials 64",
            "tuner model tune layers.json --service http://localhost:8000",
            "tuner model tune timm:mobilenetv2_100 --batch 32 --dtype bfloat16 --layout NHWC",
            "tuner model tune my_package.nets:build --input 3x224x224",
        ),
    )(with_options(tune, Terms, TERMS_WITH_OWN_OPTIONS))
    group.command("list", epilog=examples("tuner model list", "tuner model list --json"))(
        list_models
    )
    group.command("show", epilog=examples("tuner model show MODEL"))(show_one)
    group.command("cancel", epilog=examples("tuner model cancel MODEL"))(cancel)
    app.add_typer(group, name="model")

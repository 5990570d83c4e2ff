"""Command line options made from the dataclasses of :mod:`db.contract`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from db.contract.spec import specified
from tuner.cli.common import completer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def with_options(
    run: Callable[..., None], model: type[DataclassInstance], without: Collection[str] = ()
) -> Callable[..., None]:
    """Return ``run`` as a command that has an option for each field of the dataclass ``model``.

    The options' values are passed as ``**others``. Fields named in ``without`` get no option,
    because ``run`` has options of its own for them.
    """
    own = inspect.signature(run, eval_str=True).parameters.values()
    parameters = []
    for field, kind, spec in specified(model):
        if field.name in without:
            continue
        option = typer.Option(
            f"--{field.name.replace('_', '-')}",
            help=spec.description,
            min=_least(spec.bounds),
            max=spec.bounds.get("le"),
            metavar="|".join(spec.choices) or None,
            autocompletion=completer(spec.choices) if spec.choices else None,
        )
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[kind, option],
            )
        )

    parameters += [each for each in own if each.kind is not each.VAR_KEYWORD]
    parameters.sort(key=lambda each: each.kind)  # stable: fields of the model before run's own

    def command(*args: Any, **given: Any) -> None:
        run(*args, **given)

    command.__doc__ = run.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _least(bounds: Mapping[str, Any]) -> float | None:
    """Return the least value allowed, for Typer; None without a lower bound.

    Typer has no exclusive bounds, so 0.001 is added to an exclusive bound.
    """
    if "gt" in bounds:
        return float(bounds["gt"]) + 0.001
    return bounds.get("ge")

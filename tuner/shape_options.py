"""A workload's fields as options of the command line."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

import templates
from templates.workload import Workload


def per_operator(app: typer.Typer, run: Callable[..., None], summary: str) -> None:
    """Add to ``app`` a command for each operator. It takes the operator's fields as options,
    ``run``'s keyword parameters too, and calls ``run(workload, **others)``."""
    for operator in templates.operators():
        fields = _fields(operator.workload)
        others = [
            p
            for p in inspect.signature(run, eval_str=True).parameters.values()
            if p.name != "workload"
        ]

        def command(
            _model: type[Workload] = operator.workload,
            _names: tuple[str, ...] = tuple(f.name for f in fields),
            **given: Any,
        ) -> None:
            run(checked(_model, {n: given.pop(n) for n in _names}), **given)

        command.__signature__ = inspect.Signature([*fields, *others])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*fields, *others)}
        app.command(operator.name, help=f"{summary} {operator.summary}.")(command)


def checked(model: type[Workload], given: dict[str, Any]) -> Workload:
    """The workload of the given fields. Raises BadParameter with the field, the limit and the
    way out."""
    try:
        return model.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first.get("ctx", {}).get("field") or first["loc"][0])
        raise typer.BadParameter(f"--{field.replace('_', '-')}: {first['msg']}") from error


def _fields(model: type[Workload]) -> list[inspect.Parameter]:
    parameters = []
    for name, field in model.model_fields.items():
        required = field.default is PydanticUndefined
        option = typer.Option(f"--{name.replace('_', '-')}", help=field.description)
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if required else field.default,
                annotation=Annotated[_plain(field.annotation), option],
            )
        )
    return parameters


def _plain(annotation: Any) -> Any:
    """int, float or str: what the command line can parse; the model checks the rest."""
    if annotation in (int, float, str):
        return annotation
    choices = get_args(annotation)
    return type(choices[0]) if choices and not isinstance(annotation, types.UnionType) else str

"""Command line options made from the fields of the operators' workloads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

import templates
from templates.errors import first_refused
from templates.workload import Workload, is_extent
from tuner.cli.common import completer, examples
from tuner.terminal.options import as_options


def add_operator_commands(
    app: typer.Typer,
    run: Callable[..., None],
    summary: str,
    usual: Callable[[str, dict[str, Any]], Workload] | None = None,
    uses: Sequence[str] = (),
) -> None:
    """Add a command for each operator to ``app``.

    The command has an option for each field of the operator's workload and for each keyword
    parameter of ``run``, and calls ``run(workload, **others)``. If ``usual`` is given, all fields
    are optional, and the workload ``usual(operator's name, others)`` gives the fields that the user
    leaves out. ``summary`` begins the help. ``uses`` are its examples; {operator} stands for the
    operator's name, {shape} for its name with the options of its example.
    """
    for operator in templates.operators():
        fields = _fields(operator.workload, optional=usual is not None)
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
            shape = {name: given.pop(name) for name in _names}
            if usual is not None:
                fallback = usual(_model.operator, given).model_dump()
                if shape["dtype"] not in (None, fallback["dtype"]):
                    del fallback["max_error"]  # another dtype has another default
                shape = {n: fallback.get(n) if shape[n] is None else shape[n] for n in _names}
            run(checked(_model, shape), **given)

        command.__signature__ = inspect.Signature([*fields, *others])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*fields, *others)}
        shape = as_options(operator.workload.model_validate(operator.example))
        shown = [
            use.format(operator=operator.name, shape=f"{operator.name} {shape}") for use in uses
        ]
        app.command(
            operator.name,
            help=f"{summary} {operator.summary}.",
            epilog=examples(*shown) if shown else None,
        )(command)


def checked(model: type[Workload], given: dict[str, Any]) -> Workload:
    """Return the workload of these fields; a value of None counts as not given.

    Raises BadParameter, which names the field, its limit and the remedy.
    """
    try:
        return model.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        field, why = first_refused(error)
        raise typer.BadParameter(f"--{field.replace('_', '-')}: {why}") from error


def _fields(model: type[Workload], optional: bool) -> list[inspect.Parameter]:
    """Return the fields of a workload as parameters of a command, all optional if ``optional``."""
    parameters = []
    for name, field in model.model_fields.items():
        # the default of max_error depends on the dtype
        left_to_model = optional or name == "max_error" or field.default is None
        required = field.default is PydanticUndefined and not optional
        default = None if left_to_model else field.default
        plain = _plain(field.annotation)
        choices = _choices(field.annotation)
        option = typer.Option(
            f"--{name.replace('_', '-')}",
            help=field.description,
            metavar="|".join(choices) or None,
            autocompletion=completer(choices) if choices else None,
        )
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if required else default,
                annotation=Annotated[plain | None if left_to_model else plain, option],
            )
        )
    return parameters


def _choices(annotation: Any) -> list[str]:
    """Return the values of a Literal, or of the Literals in a union, as text; else []."""
    options = get_args(annotation)
    if _is_literal(annotation):
        return [str(value) for value in options]
    return [choice for option in options if _is_literal(option) for choice in _choices(option)]


def _plain(annotation: Any) -> Any:
    """Return the type by which the command line parses a field: int, float, bool or str.

    The model checks the rest.
    """
    if is_extent(annotation):
        return int
    if annotation in (int, float, bool, str):
        return annotation
    return type(get_args(annotation)[0]) if _is_literal(annotation) else str


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal

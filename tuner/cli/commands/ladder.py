"""``tuner ladder``: measure the seed documents' steps on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from templates.workload import Workload
from tuner.cli.common import JsonOption, Target, TargetOption, console, database, print_json
from tuner.cli.shape_options import add_operator_commands
from tuner.process.stopping import Stopped, stop_on_signals


def ladder(
    workload: Workload,
    *,
    document: Annotated[
        str | None, typer.Option(metavar="000|001|…", help="only the rungs of this document")
    ] = None,
    target: TargetOption = Target.auto,
    as_json: JsonOption = False,
    svg: Annotated[Path | None, typer.Option(help="draw the ladder into this SVG file")] = None,
) -> None:
    """Build, check and time every rung here, beside the tuned best and the peers.

    The table is stored and printed. Without a shape, it is that of the document, by default of the
    first one.
    """
    from tuner.build.linker import must_link
    from tuner.cli.records import refuse_database
    from tuner.config import is_writable
    from tuner.device.detect import detect
    from tuner.errors import TunerError
    from tuner.ladder.ladder import climb_and_store
    from tuner.ladder.report import picture, show_ladder
    from tuner.process import logs
    from tuner.process.scratch import must_hold_libraries, scratch
    from tuner.settings import Settings

    if workload.dtype != "float32":
        raise typer.BadParameter(
            f"--dtype: a ladder's rungs are float32, but it is {workload.dtype}; "
            "leave it out, or tune the shape"
        )
    settings = Settings()
    logs.configure_warnings_only(settings.log_format)
    if svg is not None and not svg.absolute().parent.is_dir():
        raise typer.BadParameter(f"--svg: there is no folder {svg.absolute().parent}")
    if svg is not None and not is_writable(svg):
        raise typer.BadParameter(f"--svg: {svg} can't be written by this user; name another file")
    must_link()
    device = detect(target.value)
    stop_on_signals()
    try:
        with database(settings) as engine, scratch() as own:
            must_hold_libraries(own.folder)
            if svg is not None:
                refuse_database(engine, svg)
            climbed = climb_and_store(engine, device, settings, workload, document)
    except Stopped:
        raise TunerError(
            "stopped; nothing was stored, because a climb is stored only when it is complete"
        ) from None
    if svg is not None:
        svg.write_text(picture(climbed), "utf-8")
    if as_json:
        print_json(climbed.to_json())
    else:
        show_ladder(climbed, console())


def _shape_to_climb(operator: str, given: dict[str, Any]) -> Workload:
    """Return the workload of the document that is given, or of the operator's first document."""
    from tuner.ladder.ladder import rungs_of

    return rungs_of(operator, given["document"])[0].document.workload


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Climb the seed documents' steps, from naive to the tuned best.",
        no_args_is_help=True,
    )
    uses = ("tuner ladder {operator}", "tuner ladder {shape} --svg ladder.svg")
    add_operator_commands(group, ladder, "Climb the ladder of", usual=_shape_to_climb, uses=uses)
    app.add_typer(group, name="ladder")

"""The messages of the command line for errors."""

from __future__ import annotations

from typing import Any

import typer
from pydantic import ValidationError

from db.sql.errors import StorageError
from templates.errors import TemplateError, first_refused
from templates.errors.suggestions import suggest_name
from tuner.errors import TunerError


def error_message(error: Exception) -> str | None:
    """Return the message for an error: what was refused, and the remedy.

    Return None for a fault of this program, whose traceback should be shown.
    """
    if isinstance(error, TunerError | StorageError | TemplateError):
        return str(error)
    if isinstance(error, ValidationError):  # of the settings; shapes are checked by checked()
        name, why = first_refused(error)
        return f"setting TUNER_{name.upper()}: {why}"
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd()
        return "the working folder was removed; change to another one"
    if isinstance(error, OSError):  # of a file, a folder or a disk
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return None


def rewrite_message(error: typer.TyperException) -> None:
    """Replace the message of a refused option in place.

    pydantic's message is replaced by our own. For an unknown option, a similar one is named.
    """
    cause = error.__cause__
    said: Any = error
    if hasattr(said, "possibilities") and said.ctx:
        known = {name: each.help or "" for each in said.ctx.command.params for name in each.opts}
        meant = suggest_name(said.option_name, known)
        said.message, said.possibilities = f"{said.message}{meant and f'; {meant}'}", None
    if isinstance(error, typer.BadParameter) and error.param and isinstance(cause, ValidationError):
        error.message = first_refused(cause)[1]

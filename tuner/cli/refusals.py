"""What the command line says of an error."""

from __future__ import annotations

from pydantic import ValidationError

from db.sql.errors import StorageError
from templates.errors import TemplateError
from tuner.errors import TunerError


def in_one_line(error: Exception) -> str | None:
    """What was refused and the way out; None for a fault of this program, whose traceback is of
    use."""
    if isinstance(error, TunerError | StorageError | TemplateError):
        return str(error)
    if isinstance(error, ValidationError):  # of the settings: a shape is checked where it is read
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        return f"setting TUNER_{name}: {first['msg']}"
    if isinstance(error, OSError):  # a folder or a disk that can't be used
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return None

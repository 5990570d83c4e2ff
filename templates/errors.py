"""What can go wrong in `templates`, each with what to do about it.

TemplateError
├── InvalidConfig     the configuration is not one of the space's
├── InvalidRecords    a log holds what can't be imported
├── InvalidSpace      a template declared its space wrongly
├── SpaceTooLarge     a space has more combinations than may be enumerated
├── UnknownOperator   no operator has that name
└── UnknownTemplate   an order names a template that there is not
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class TemplateError(Exception):
    """Base of every error that `templates` raises."""


class InvalidConfig(TemplateError):
    """Use one of the values named in the message, or leave out the knob it names."""


class InvalidSpace(TemplateError):
    """Correct the declaration that the message names; the template is at fault, not its user."""


@dataclass(frozen=True)
class RecordFault:
    """What is wrong with one record: its line in the log, from 1, the field and why."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"record {self.line}: {self.field}: {self.message}"


class InvalidRecords(TemplateError):
    """Correct or remove the records that the message names, and import the log again."""

    def __init__(self, faults: Sequence[RecordFault], shown: int = 5) -> None:
        said = [str(fault) for fault in faults[:shown]]
        if len(faults) > shown:
            said.append(f"and {len(faults) - shown} more")
        super().__init__("; ".join([*said, "nothing was imported"]))
        self.faults = tuple(faults)


class SpaceTooLarge(TemplateError):
    """Declare fewer values, or tell the constraints which knobs they read (`reads=`)."""


class UnknownOperator(TemplateError):
    """Ask for one of the operators that the message names."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown operator {name!r}; known are: {', '.join(sorted(known))}")
        self.name = name


class UnknownTemplate(TemplateError):
    """Name some of the templates that the message names."""

    def __init__(
        self, names: Iterable[str], operator: str, kind: str, known: Iterable[str]
    ) -> None:
        where = "" if kind == "auto" else f" on {kind}"
        super().__init__(
            f"templates has {', '.join(map(repr, names))}, which {operator} does not have{where}; "
            f"choose from {', '.join(known)}"
        )

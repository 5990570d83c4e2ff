"""An order: what a user asks for. Declared here once; storage, service, client and shell follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from db.contract.spec import Spec
from db.sql.choices import JobState

Target = Literal["auto", "cpu", "cuda"]
Baselines = Literal["all", "pytorch", "none"]
PREDICTED = "predicted"
STRATEGIES = ("xgb", "evolutionary", "random", "grid", PREDICTED, "metaschedule")
"""The searches that can be ordered; a test holds them to those of tuner.search."""

MAX_TRIALS = 100_000
MAX_BUDGET_SECONDS = 604_800  # a week
MAX_SEED = 2**31 - 1

_HIDDEN = r"\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
PRINTABLE = rf"^[^{_HIDDEN}]*[^\s{_HIDDEN}][^{_HIDDEN}]*$"
"""No control characters, breaks of lines, nor what is unseen or turns the direction of text; and
not blanks alone: what has that name on a page could not be seen, nor followed as a link."""

NEVER_COMPARED = ("label",)
ALWAYS_COMPARED = ("target", "trials", "search", "on_existing", "budget_seconds", "seed")
"""The terms of the first release. Those that came later are compared where they are not at their
default: orders of earlier releases are still equal to the same ones of today."""


class Shape(Protocol):
    """A workload, as templates/ has it."""

    operator: ClassVar[str]

    @property
    def key(self) -> str: ...

    def model_dump(self) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class SearchTerms:
    """What is ordered as a number or a wish, and of which a job shows what became of it."""

    trials: Annotated[int, Spec("configurations to measure", ge=1, le=MAX_TRIALS)] = 64
    warm_start: Annotated[
        bool,
        Spec("begin with what trials of other shapes on the same device say; false starts cold"),
    ] = True


@dataclass(frozen=True, kw_only=True)
class KeptTerms:
    """What is ordered, and shown of the job in the same words."""

    target: Annotated[Target, Spec("the kind of device; auto takes any worker's")] = "auto"
    search: Annotated[str, Spec("the search strategy", STRATEGIES)] = "xgb"
    on_existing: Annotated[
        Literal["reuse", "retune"],
        Spec(
            "reuse answers with a succeeded job behind whose best at least as many trials "
            "worked, or that was allowed as much and ended before, as by patience"
        ),
    ] = "reuse"
    budget_seconds: Annotated[
        float | None,
        Spec(
            "the search ends after so many seconds and a first batch", gt=0, le=MAX_BUDGET_SECONDS
        ),
    ] = None
    seed: Annotated[int | None, Spec("of the search's random choices", ge=0, le=MAX_SEED)] = None
    patience: Annotated[
        int | None,
        Spec(
            "the search ends after so many trials in a row that were no faster",
            ge=1,
            le=MAX_TRIALS,
        ),
    ] = None
    templates: Annotated[
        Sequence[str] | None,
        Spec(
            "search the spaces of these templates only, as where their arithmetic matters; "
            "null takes all that apply",
            min_length=1,
            max_length=32,
        ),
    ] = None
    baselines: Annotated[
        Baselines,
        Spec(
            "what the best is compared with in the last round: every library that is here, "
            "PyTorch's convolutions alone, as a model's layers call them, or none; all of them "
            "take longer than many a search"
        ),
    ] = "all"
    label: Annotated[
        str | None,
        Spec(
            "your own name for the job, to find it by; printable. Orders that differ in nothing "
            "else are equal, and get the job that is there, under its first label",
            min_length=1,
            max_length=200,
            pattern=PRINTABLE,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Terms(KeptTerms, SearchTerms):
    """All that is ordered beside the workload."""


def terms_of(said: Terms) -> dict[str, Any]:
    """The terms, by their names, of what may have more than them."""
    return {each.name: getattr(said, each.name) for each in fields(Terms)}


def chosen(said: Terms) -> dict[str, Any]:
    """The terms that are not at their default."""
    return {
        each.name: value
        for each in fields(Terms)
        if (value := getattr(said, each.name)) != each.default
    }


@dataclass(frozen=True, kw_only=True)
class JobOrder(Terms):
    """The terms with their workload. ``templates`` are sorted, each named once; ``search`` may
    also say that the configurations are listed (db/records/listed.py)."""

    operator: str
    workload_key: str
    workload: dict[str, Any]

    @classmethod
    def of(cls, workload: Shape, terms: Terms | None = None, **changed: Any) -> Self:
        """The order of that workload on those terms, with some of them changed."""
        said = {} if terms is None else terms_of(terms)
        return cls(
            operator=workload.operator,
            workload_key=workload.key,
            workload=workload.model_dump(),
            **said | changed,
        )

    def compared(self) -> dict[str, Any]:
        """What two orders are equal by."""
        said = asdict(self)
        for each in fields(Terms):
            usual = each.name not in ALWAYS_COMPARED and said[each.name] == each.default
            if usual or each.name in NEVER_COMPARED:
                del said[each.name]
        return said

    def to_row(self) -> dict[str, Any]:
        """The columns of jobs that hold the terms."""
        row = {COLUMNS.get(name, name): value for name, value in terms_of(self).items()}
        return row | {"label_folded": self.label and self.label.casefold()}


COLUMNS = {"trials": "trials_requested"}
"""Of the table of jobs, where they are called otherwise."""

PREDICTION: Mapping[str, Any] = MappingProxyType(
    {"search": PREDICTED, "trials": 8, "baselines": "none", "warm_start": False}
)
"""The terms of an order whose best answers ``match=predicted``: what a ranker expects to be fastest
is built, checked and timed, and nothing is searched."""


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows; None: all."""

    state: Annotated[JobState | None, Spec("only in this state")] = None
    operator: Annotated[str | None, Spec("only of this operator")] = None
    label: Annotated[
        str | None, Spec("only those whose label has this in it, in any case", max_length=200)
    ] = None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self:
        """What is asked for by these names, whatever else is; an empty text asks for nothing."""
        return cls(**{each.name: asked.get(each.name) or None for each in fields(cls)})

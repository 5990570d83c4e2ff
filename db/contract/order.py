"""An order of one workload, and its terms: defaults, bounds and how two orders are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self
from unicodedata import normalize

from db.contract.spec import Spec
from db.sql.choices import JobState

Target = Literal["auto", "cpu", "cuda"]
Baselines = Literal["all", "pytorch", "none"]
PREDICTED = "predicted"
STRATEGIES = ("xgb", "evolutionary", "random", "grid", PREDICTED, "metaschedule")
"""The searches that can be ordered. A test compares them with those that tuner.search has."""

MAX_TRIALS = 100_000
MAX_BUDGET_SECONDS = 604_800  # a week
MAX_SEED = 2**31 - 1

_HIDDEN = (
    r"\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
)
_BLANK = (
    r"\s\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Blanks, and the characters that Unicode calls default ignorable. They join letters or choose the
form of letters and emoji, and are invisible by themselves. Characters beyond U+FFFF are not
escaped, because Python, Rust and JavaScript have no common escape for them."""
PRINTABLE = rf"^[^{_HIDDEN}]*[^{_BLANK}{_HIDDEN}][^{_HIDDEN}]*$"
"""A pattern for names: no control characters, no line breaks, nothing that changes the direction of
text, and no invisible character except those that a script or an emoji needs. At least one
character must be visible: other names could be neither seen on a page nor followed as a link."""

NEVER_COMPARED = ("label",)
ALWAYS_COMPARED = ("target", "trials", "search", "on_existing", "budget_seconds", "seed")
"""The terms of the first release, which are always compared. A later term is compared only if it
differs from its default. So an order that an earlier release stored still equals the same order of
today."""


class Shape(Protocol):
    """The part of a workload that this module uses. All workloads of templates/ have it."""

    operator: ClassVar[str]

    @property
    def key(self) -> str: ...

    def model_dump(self) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class SearchTerms:
    """Terms that a job shows in another form than they were ordered: ``trials`` as counts, and
    ``warm_start`` with the jobs and trials that were found."""

    trials: Annotated[int, Spec("configurations to measure", ge=1, le=MAX_TRIALS)] = 64
    warm_start: Annotated[
        bool,
        Spec(
            "start the search from earlier trials of other shapes on the same device; false starts "
            "without them"
        ),
    ] = True


@dataclass(frozen=True, kw_only=True)
class EchoedTerms:
    """Terms that a job shows as they were ordered."""

    target: Annotated[Target, Spec("the kind of device; auto takes any worker's")] = "auto"
    for_device: Annotated[
        str | None,
        Spec(
            "only a worker on a device with this name takes the job, such as NVIDIA T4, as the "
            "workers show it; without a name, a worker on any device of the kind",
            min_length=1,
            max_length=200,
            pattern=PRINTABLE,
        ),
    ] = None
    search: Annotated[str, Spec("the search strategy", STRATEGIES)] = "xgb"
    on_existing: Annotated[
        Literal["reuse", "retune"],
        Spec(
            "reuse takes a succeeded job as the answer if as many trials of the workload have "
            "worked on its device, or if it was allowed as much and ended early, as by "
            "patience; retune continues the search, with all stored trials"
        ),
    ] = "reuse"
    budget_seconds: Annotated[
        float | None,
        Spec(
            "the search ends after this many seconds, but not before a first batch of trials",
            gt=0,
            le=MAX_BUDGET_SECONDS,
        ),
    ] = None
    seed: Annotated[int | None, Spec("seed of the search's random choices", ge=0, le=MAX_SEED)] = (
        None
    )
    patience: Annotated[
        int | None,
        Spec(
            "the search ends after this many trials in a row that were no faster",
            ge=1,
            le=MAX_TRIALS,
        ),
    ] = None
    templates: Annotated[
        Sequence[str] | None,
        Spec(
            "search only the spaces of these templates, for example if their arithmetic matters; "
            "without names, those of all templates that apply",
            min_length=1,
            max_length=32,
        ),
    ] = None
    baselines: Annotated[
        Baselines,
        Spec(
            "the peers that the best is timed beside: all that are installed; pytorch, PyTorch's "
            "convolutions only, as a model's layers call them; or none. All peers together often "
            "take longer than the search"
        ),
    ] = "all"
    label: Annotated[
        str | None,
        Spec(
            "your own name for the job, to find it by; printable. Orders that differ only in it "
            "are equal, and get the job that is there, under its first label",
            min_length=1,
            max_length=200,
            pattern=PRINTABLE,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Terms(EchoedTerms, SearchTerms):
    """All terms of an order, which is everything but the workload."""


def terms_of(terms: Terms) -> dict[str, Any]:
    """Return the terms by their names, without the other fields that an order has."""
    return {each.name: getattr(terms, each.name) for each in fields(Terms)}


def changed_terms(terms: Terms) -> dict[str, Any]:
    """Return the terms that differ from their default, by their names."""
    return {
        each.name: value
        for each in fields(Terms)
        if (value := getattr(terms, each.name)) != each.default
    }


@dataclass(frozen=True, kw_only=True)
class JobOrder(Terms):
    """An order of one workload. ``templates`` are sorted and without repeats. ``search`` is a
    strategy, or one of ``db.records.listed.SEARCHES`` if the configurations are given as a list."""

    operator: str
    workload_key: str
    workload: dict[str, Any]

    @classmethod
    def of(cls, workload: Shape, terms: Terms | None = None, **changed: Any) -> Self:
        """Return an order of a workload on these terms, by default the usual ones. ``changed`` has
        the terms that differ from them, by name."""
        given = {} if terms is None else terms_of(terms)
        return cls(
            operator=workload.operator,
            workload_key=workload.key,
            workload=workload.model_dump(),
            **given | changed,
        )

    def compared_fields(self) -> dict[str, Any]:
        """Return the fields that are compared between two orders. The label is left out, and so are
        later terms (see ALWAYS_COMPARED) that have their default."""
        compared = asdict(self)
        for each in fields(Terms):
            usual = each.name not in ALWAYS_COMPARED and compared[each.name] == each.default
            if usual or each.name in NEVER_COMPARED:
                del compared[each.name]
        return compared

    def to_row(self) -> dict[str, Any]:
        """Return the values of the columns of table jobs that hold the terms."""
        row = {COLUMNS.get(name, name): value for name, value in terms_of(self).items()}
        return row | {"label_folded": self.label and fold(self.label)}


def fold(text: str) -> str:
    """Return the text in the form in which labels are compared (NFKC). Texts that differ only in
    case, or in Unicode's form of the same characters, get the same form."""
    return normalize("NFKC", normalize("NFKC", text).casefold())


COLUMNS = {"trials": "trials_requested"}
"""The column of the table jobs for each term whose column has another name."""

PREDICTION: Mapping[str, Any] = MappingProxyType(
    {"search": PREDICTED, "trials": 8, "baselines": "none", "warm_start": False}
)
"""The terms of an order whose best answers ``match=predicted``. Its job builds, checks and times
the configurations that a ranker expects to be fastest, and searches nothing."""


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """The conditions that a job must meet to be listed. None means any."""

    state: Annotated[JobState | None, Spec("only in this state")] = None
    operator: Annotated[str | None, Spec("only of this operator")] = None
    label: Annotated[
        str | None,
        Spec("only jobs whose label contains this text, ignoring case", max_length=200),
    ] = None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self:
        """Return the filter that a request's parameters ask for. Other parameters are ignored, and
        an empty text means any."""
        return cls(**{each.name: asked.get(each.name) or None for each in fields(cls)})

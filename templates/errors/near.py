"""Which field somebody may have meant who named one that there is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

SHOWN, LONGEST = 3, 60
_WORD = re.compile(r"\w{4,}")


def near(kind: Any, path: Sequence[Any]) -> str:
    """A question that names the fields like the last step of the path, in what may be where the
    others lead in a model, or in one of a union's; nothing if there is none."""
    *steps, name = path or [""]
    models = list(_models(kind))
    for step in steps:
        within = [each.model_fields[step] for each in models if step in each.model_fields]
        # a union's steps are tags, too, and a list's are numbers
        tagged = [each for each in models if any(step == tag for tag in _tags(each))]
        models = [*chain.from_iterable(_models(each.annotation) for each in within)] or (
            tagged or models
        )
    fields = dict(chain.from_iterable(each.model_fields.items() for each in models))
    meant = " or ".join(_like(str(name), fields)[:SHOWN])
    return f"did you mean {meant}?" if meant else ""


def _like(name: str, fields: dict[str, FieldInfo]) -> list[str]:
    """Those of a name like it; or else those whose descriptions say such a word before they go
    into details."""
    by_name = {field.casefold(): [field] for field in fields}
    by_word: dict[str, list[str]] = {}
    for field, info in fields.items():
        said = re.split("[;:(]", info.description or "")[0].casefold()
        for word in set(_WORD.findall(said)):
            by_word.setdefault(word, []).append(field)
    for known in (by_name, by_word) if len(name) <= LONGEST else ():
        for like in get_close_matches(name.casefold(), known, n=1, cutoff=0.75):
            return known[like]
    return []


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    operator = model.model_fields.get("operator")
    return get_args(operator.annotation) if operator else ()

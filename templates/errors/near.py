"""Which field somebody may have meant who named one that there is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, get_args

from pydantic import BaseModel

SHOWN, LONGEST, MOST_WORDS = 3, 60, 4
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
    fields = chain.from_iterable(each.model_fields.items() for each in models)
    return like(str(name), {field: info.description or "" for field, info in fields})


def like(name: str, described: Mapping[str, str]) -> str:
    """The same of names with their descriptions: those like it; or else those that are described
    by such a word and few others, before it comes to details."""
    by_name = {known.casefold(): [known] for known in described}
    by_word: dict[str, list[str]] = {}
    for known, description in described.items():
        said = re.split("[;:(]", description)[0].casefold()
        for word in set(_WORD.findall(said)) if len(said.split()) <= MOST_WORDS else ():
            by_word.setdefault(word, []).append(known)
    for names in (by_name, by_word) if len(name) <= LONGEST else ():
        for found in get_close_matches(name.casefold(), names, n=1, cutoff=0.75):
            return f"did you mean {' or '.join(names[found][:SHOWN])}?"
    return ""


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    operator = model.model_fields.get("operator")
    return get_args(operator.annotation) if operator else ()

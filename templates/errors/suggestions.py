"""Suggestions for misspelt names of fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, get_args

from pydantic import BaseModel

SHOWN, LONGEST, MOST_WORDS = 3, 60, 4
_WORD = re.compile(r"\w{4,}")


def suggest_field(kind: Any, path: Sequence[Any]) -> str:
    """Return a question that names the fields that the last step of a path may mean, or "".

    ``kind`` is a model or a union of models, and ``path`` leads into it. The models to which the
    other steps lead are searched first. If they have no similar field, the fields beside each step
    are searched, and the question says beside which step the field belongs.
    """
    *steps, name = path or [""]
    models, passed = list(_models(kind)), []
    for step in steps:
        within = [each.model_fields[step] for each in models if step in each.model_fields]
        # pydantic's path also has the tag of a union's member and the index of a list's item
        tagged = [each for each in models if any(step == tag for tag in _tags(each))]
        if inner := [*chain.from_iterable(_models(each.annotation) for each in within)]:
            passed.append((step, models))
        models = inner or tagged or models
    if found := suggest_name(str(name), _described(models)):
        return found
    for step, around in reversed(passed):
        if found := suggest_name(str(name), dict.fromkeys(_described(around), "")):
            return f"{found.removesuffix('?')}, beside {step}?"
    return ""


def suggest_name(name: str, described: Mapping[str, str]) -> str:
    """Return a question that names the ``described`` names that ``name`` may mean, or "".

    ``described`` maps names to their descriptions. A name with a similar spelling is preferred. If
    there is none, the names are those whose description has a similar word. Only descriptions with
    at most four words before their details are searched.
    """
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


def _described(models: Sequence[type[BaseModel]]) -> dict[str, str]:
    """Return the descriptions of the models' fields, by their names."""
    fields = chain.from_iterable(each.model_fields.items() for each in models)
    return {field: info.description or "" for field, info in fields}


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type annotation, however deep."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """Return the values of the field ``operator``, by which a union tells the model from others."""
    operator = model.model_fields.get("operator")
    return get_args(operator.annotation) if operator else ()

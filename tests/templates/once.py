"""Compiled programs, kept in the build cache from one run of the tests to the next."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from tuner.build import build_cache
from tuner.settings import Settings


def once(*parts: str, make: Callable[[], build_cache.Entry]) -> build_cache.Entry:
    """Return what an earlier run made of the same parts, or else what ``make`` returns.

    ``parts`` must name everything the result depends on. Nothing is kept if the settings have no
    build cache.
    """
    folder = _folder()
    if folder is None:
        return make()
    name = build_cache.key(*parts)
    found = build_cache.read(folder, name)
    if found is None:
        found = make()
        build_cache.write(folder, name, found)
    return found


@cache
def _folder() -> Path | None:
    return Settings().build_cache

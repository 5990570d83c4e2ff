"""The libraries of a search's fastest trials, kept for the last round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from db.results.trials import config_key
from tuner.build.compile import Built

KEPT = 16
"""How many libraries are kept: twice the number of finalists that the fastest trials may give."""


class FastestBuilds:
    """The builds of a search's fastest trials, at most KEPT.

    Their libraries lie in ``folder``, which the caller makes and deletes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._kept: dict[str, tuple[float, Built]] = {}

    def offer(self, config: dict[str, Any], built: Built, time_us: float) -> None:
        """Keep the build, and rename its library, if it is among the KEPT fastest."""
        slowest = max(self._kept, key=lambda key: self._kept[key][0], default="")
        if len(self._kept) == KEPT:
            if time_us >= self._kept[slowest][0]:
                return
            self._kept.pop(slowest)[1].order.library.unlink(missing_ok=True)
        self._number += 1
        library = built.order.library.rename(self._folder / f"fast-{self._number}.so")
        order = replace(built.order, library=library)
        self._kept[config_key(config)] = time_us, replace(built, order=order)

    def take(self, config: dict[str, Any], library: Path) -> Built | None:
        """Return the build of a configuration and forget it; None if it was not kept.

        Its file is moved to the path ``library``.
        """
        _, built = self._kept.pop(config_key(config), (0.0, None))
        if built is None:
            return None
        order = replace(built.order, library=built.order.library.rename(library))
        return replace(built, order=order)

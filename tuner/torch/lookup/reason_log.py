"""What the replaced layers of a model share: the log of what computes them, and their answers.

The log has each reason once for all of them. The answers are those of their source.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Literal

from tuner.torch.lookup import bounded
from tuner.torch.lookup.source_lookup import Found

_logger = logging.getLogger("tuner.torch.modules")
_NUMBER = re.compile(r"\d+")


class ReasonLog:
    """The log and the source's answers of one module, or of all replaced layers of a model.

    ``model`` is the model's class, and ``layers`` counts its replaced layers. For a model, reasons
    that differ only in numbers, such as those of shapes that are not tuned, are logged once.
    ``answers`` has the source's answers by what was asked, so that it is asked once for all layers.
    """

    def __init__(self, model: str = "", layers: int = 1) -> None:
        self._once = ""
        if layers > 1:
            of = f"the {layers} replaced layers of {model}"
            self._once = f" (said once for {of}; each has its own .reason)"
        self._reasons: dict[str, None] = {}
        self.answers: dict[Any, Found] = {}

    def log(self, kind: str, used: Literal["tuned", "pytorch"], reason: str) -> None:
        """Log what computes a module of class ``kind``, and why, unless that was logged before."""
        if reason in self._reasons:
            return
        cause = _NUMBER.sub("", reason) if self._once else reason
        if cause not in self._reasons:
            level = logging.INFO if used == "tuned" else logging.WARNING
            _logger.log(level, "%s is computed by %s: %s%s", kind, used, reason, self._once)
        for each in (reason, cause):
            bounded.put(self._reasons, each, None)

    def forget(self) -> None:
        """Have every reason logged again, and the source asked again."""
        self._reasons.clear()
        self.answers = {}  # a new one: answers still on their way go into the old one

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_reasons": {}, "answers": {}}

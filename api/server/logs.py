"""Structured logs on stderr, one line for each event, with uvicorn's lines and library warnings."""

from __future__ import annotations

import logging
import math
import sys
import time
from contextlib import suppress
from typing import Literal

import structlog
from structlog.tracebacks import ExceptionDictTransformer

# In both formats, tracebacks leave out variables: a caller's key may be among them.
_TRACEBACKS = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
_PLAIN = structlog.dev.plain_traceback


REPEAT_SECONDS = 60.0


class RepeatFilter(logging.Filter):
    """A filter that lets each message through once in REPEAT_SECONDS.

    When descriptors run out, asyncio logs a traceback for each connection that it can't accept."""

    def __init__(self) -> None:
        super().__init__()
        self._last_passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, message = time.monotonic(), record.getMessage().partition("\n")[0]
        due = now - self._last_passed.get(message, -math.inf) > REPEAT_SECONDS
        if due:
            self._last_passed = {
                text: at for text, at in self._last_passed.items() if now - at < REPEAT_SECONDS
            }
            self._last_passed[message] = now
        return due


def configure(log_format: Literal["json", "console"]) -> None:
    """Send structlog, uvicorn and the warnings of other libraries to stderr in this format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    finish: list[structlog.typing.Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=_a_terminal(), exception_formatter=_PLAIN)]
    )
    structlog.configure(
        processors=[*shared, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_StandardError,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("asyncio").addFilter(RepeatFilter())
    _take_over("uvicorn", handler)
    # The request line of api.middleware.context says more than uvicorn's access line.
    logging.getLogger("uvicorn.access").disabled = True


class _StandardError:
    """A logger that writes to stderr.

    If stderr is closed, its pipe broken or its disk full, a line is lost but no request fails."""

    def __init__(self, *_: object) -> None: ...

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: stderr is closed
            if sys.stderr is not None:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    debug = info = warning = error = critical = msg


def _a_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _take_over(name: str, handler: logging.Handler) -> None:
    """Send the lines of this logger and of its children to this handler alone."""
    logger = logging.getLogger(name)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for child in logging.root.manager.loggerDict:
        if child.startswith(f"{name}."):
            logging.getLogger(child).handlers = []
            logging.getLogger(child).propagate = True

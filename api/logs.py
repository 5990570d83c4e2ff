"""Structured logs on stderr: one line an event, uvicorn's own lines and the warnings of libraries
included."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog
from structlog.tracebacks import ExceptionDictTransformer

# neither with the variables, among which may be a caller's key
_TRACEBACKS = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
_PLAIN = structlog.dev.plain_traceback


def configure(log_format: Literal["json", "console"]) -> None:
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    finish: list[structlog.typing.Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_PLAIN)]
    )
    structlog.configure(
        processors=[*shared, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
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
    _take_over("uvicorn", handler)
    # The request line of api.middleware.context says more than uvicorn's access line.
    logging.getLogger("uvicorn.access").disabled = True


def _take_over(name: str, handler: logging.Handler) -> None:
    logger = logging.getLogger(name)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for child in logging.root.manager.loggerDict:
        if child.startswith(f"{name}."):
            logging.getLogger(child).handlers = []
            logging.getLogger(child).propagate = True

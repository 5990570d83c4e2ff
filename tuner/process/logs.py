"""Structured logs: one line an event, to standard error, the warnings of libraries included."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Literal

import structlog


def configure(log_format: Literal["json", "console"]) -> None:
    """What is bound with ``structlog.contextvars`` (the job's id, above all) is in every line."""
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr is not None and sys.stderr.isatty())
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        logger_factory=_StandardError,
    )
    unwrapped = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[unwrapped, renderer]
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class _StandardError:
    """What standard error is by then: a notebook or a test runner puts another in its place. If it
    is closed, its pipe broken or its disk full, the line is lost, and not the job that it is of."""

    def __init__(self, *_: object) -> None: ...

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            if sys.stderr is not None:
                print(line, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def quietly(log_format: Literal["json", "console"]) -> None:
    """Warnings and errors alone: for what says itself how it goes."""
    configure(log_format)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

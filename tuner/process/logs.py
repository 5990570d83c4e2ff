"""Structured logs on standard error, one line for each event, with the warnings of libraries."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Literal

import structlog


def configure(log_format: Literal["json", "console"]) -> None:
    """Set up logs for this process. Each line contains what is bound with
    ``structlog.contextvars``, above all the job's id."""
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
    """A logger that writes to ``sys.stderr`` as it is at each line, because notebooks and test
    runners replace it. If it is closed, its pipe broken or its disk full, the line is lost, but the
    job goes on."""

    def __init__(self, *_: object) -> None: ...

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a closed file raises ValueError
            if sys.stderr is not None:
                print(line, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def quietly(log_format: Literal["json", "console"]) -> None:
    """Set up logs of warnings and errors only, for commands that print their progress
    themselves."""
    configure(log_format)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

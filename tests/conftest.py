"""Hypothesis settings and clean-up that apply to every test."""

import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# no deadline: the time of an example depends on how busy the machine is, not on what is tested
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """Undo the signal handlers and the logging that a command or a local search has set up."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    structlog.reset_defaults()

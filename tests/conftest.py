"""How every test runs."""

import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# how long an example takes says something of the machine, not of what is tested
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """The handlers and logs that a command or a local search sets are gone for the next test."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    structlog.reset_defaults()

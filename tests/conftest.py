"""How every test runs."""

from hypothesis import HealthCheck, settings

# how long an example takes says something of the machine, not of what is tested
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

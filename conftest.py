"""For all tests. Here, at the root, so that `pytest` alone finds the rooms as `python -m pytest`
does."""

from hypothesis import settings

# how long an example takes is the machine's business; pytest-timeout ends what hangs
settings.register_profile("convtune", deadline=None)
settings.load_profile("convtune")

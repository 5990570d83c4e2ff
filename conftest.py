"""For all tests. Here, at the root, so that `pytest` alone finds the rooms as `python -m pytest`
does."""

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

# how long an example takes is the machine's business; pytest-timeout ends what hangs
settings.register_profile("convtune", deadline=None)
settings.load_profile("convtune")

CONFIG = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """No test, nor a process that it starts, signs with the user's own key or pins one for them."""
    config.stash[CONFIG] = folder = tempfile.mkdtemp(prefix="convtune-config-")
    os.environ["XDG_CONFIG_HOME"] = folder
    os.environ["TUNER_SETTLE_SECONDS"] = "0"  # who is faster by a percent is no test's concern
    for name in ("TUNER_SIGNING_KEY", "TUNER_SIGNERS"):
        os.environ.pop(name, None)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[CONFIG], ignore_errors=True)

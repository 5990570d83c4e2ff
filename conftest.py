"""For all tests. Here, at the root, so that `pytest` alone finds the rooms as `python -m pytest`
does."""

import fcntl
import gc
import inspect
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# how long an example takes is the machine's business; pytest-timeout ends what hangs
settings.register_profile("convtune", deadline=None)
settings.load_profile("convtune")

CONFIG = pytest.StashKey[str]()
PYTORCH = find_spec("torch") is not None
FEW_LOOKS = 20_000  # objects between two looks for garbage
FIRST = "tests/tuner/farm/"
"""Tests that wait longest. As the last ones they would leave a core idle for half a minute."""


def pytest_configure(config: pytest.Config) -> None:
    """No test, nor a process that it starts, signs with the user's own key or pins one for them.
    Raises UsageError if the tests that need PyTorch are asked for and would all be skipped."""
    config.stash[CONFIG] = folder = tempfile.mkdtemp(prefix="convtune-config-")
    os.environ["XDG_CONFIG_HOME"] = folder
    os.environ["TUNER_SETTLE_SECONDS"] = "0"  # who is faster by a percent is no test's concern
    cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
    if cache is not None:  # across runs too: most programs are those of the last one
        os.environ["TUNER_BUILD_CACHE"] = str(cache.mkdir("built"))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache.mkdir("inductor"))
    # TVM asks for the stack with each program in TVMScript, and reads the source of no frame
    inspect.stack = partial(inspect.stack, 0)
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"  # PyTorch compiles seven programs to find that out
    for name in ("TUNER_SIGNING_KEY", "TUNER_SIGNERS"):
        os.environ.pop(name, None)
    if config.option.markexpr == "torch" and not PYTORCH:
        raise pytest.UsageError("-m torch needs PyTorch, which is not installed: make suite-torch")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[CONFIG], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Of several workers one collects first: the others read what it has compiled."""
    if not hasattr(session.config, "workerinput"):
        return (yield)
    with Path(__file__).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)
        return (yield)


def pytest_collectstart() -> None:
    gc.disable()  # none of what tests import is garbage


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of the tests that need PyTorch alone, files that mark none are not even imported."""
    if config.option.markexpr == "torch" and collection_path.suffix == ".py":
        return "mark.torch" not in collection_path.read_text() or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put FIRST first, and skip without PyTorch what is marked so; what needs it and is not marked,
    fails."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    for item in items:
        if item.get_closest_marker("torch") and not PYTORCH:
            item.add_marker(pytest.mark.skip(reason="PyTorch is not installed"))


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: no look for garbage sees them."""
    gc.freeze()
    gc.set_threshold(FEW_LOOKS)
    gc.enable()

"""Fixtures of the tests that need a GPU: the device, a child process and a builder. Without a GPU
all tests in this folder are skipped."""

import os
from collections.abc import Iterator

import pytest

from tuner.build.builder import Builder
from tuner.client.local import Local
from tuner.device import cuda_facts
from tuner.device.detect import detect
from tuner.device.device import Device
from tuner.process.child import Child
from tuner.settings import Settings


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    missing = cuda_facts.missing()
    if missing is not None:
        pytest.skip(f"no GPU: {missing}")


@pytest.fixture(scope="session")
def device() -> Device:
    child = Child()
    try:
        return child.call(detect, "cuda", timeout=60)
    finally:
        child.close()


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    opened = Child()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def builder(device: Device) -> Iterator[Builder]:
    at_once = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    with Builder(workers=max(1, (os.cpu_count() or 1) // at_once)) as builder:
        yield builder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Yield an empty database, in which models are tuned."""
    folder = tmp_path_factory.mktemp("models")
    settings = Settings(database_url=f"sqlite:///{folder / 'convtune.db'}")
    with Local(settings, cache=folder / "cache") as opened:
        yield opened

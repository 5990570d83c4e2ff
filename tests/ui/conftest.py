"""Fixtures: a real Chromium, service and worker. Tests are skipped if there is no Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.processes import Worker
from tests.tuner.service_process import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPTIONS = (
    "--no-sandbox",  # root can run Chromium only without one
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=chromium, args=list(OPTIONS))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def service(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def worker(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    started = Worker(service.engine.url.render_as_string(), tmp_path_factory.mktemp("worker"))
    yield started
    assert started.stop()[0] == 0


@pytest.fixture
def page(browser: "Browser", service: Service) -> Iterator["Page"]:
    """A new page in a browser context of its own.

    The test fails if the page sends a request to another host or writes anything to its console.
    """
    context = browser.new_context(
        base_url=service.url,
        viewport={"width": 1280, "height": 900},
        permissions=["clipboard-read", "clipboard-write"],
    )
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    foreign: list[str] = []
    said: list[str] = []
    context.on("request", lambda request: foreign.append(request.url))
    opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: said.append(str(error)))
    yield opened
    context.close()
    assert [url for url in foreign if not url.startswith(service.url)] == []
    assert said == []


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).parents[2]

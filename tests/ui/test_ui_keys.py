"""API keys in the browser: the key's cookie works for pages, orders, streams and Swagger UI."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from db.access import keys
from tests.tuner.service_process import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def service(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that requires a key for reading, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_REQUIRE_KEY_TO_READ", "true")
        running = Service(tmp_path_factory.mktemp("keys"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def secret(service: Service) -> str:
    return keys.create(service.engine, "someone", "submit")[1]


def give(page: "Page", secret: str) -> None:
    """Fill in the form for a key and send it."""
    page.get_by_label("Key", exact=True).fill(secret)
    page.get_by_role("button", name="Use this key").click()


def order_and_cancel(page: "Page", secret: str) -> None:
    page.goto("/ui/key?back=/%3Foperator%3Dconv1d")
    give(page, secret)
    page.wait_for_url("**/?operator=conv1d")
    page.get_by_role("link", name="Key: someone").wait_for()
    page.locator('[name="workload.M"]').fill("321")
    page.get_by_role("button", name="Order").click()
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-f]{32}"))
    page.get_by_role("button", name="Cancel").click()
    page.locator(".state.cancelled").first.wait_for()


def test_key_entered_in_the_form_works_for_pages_orders_and_scripts(
    page: "Page", secret: str
) -> None:
    """Pages, orders and requests of scripts send the key's cookie, which scripts can't read."""
    order_and_cancel(page, secret)
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("fetch('/jobs').then(answer => answer.status)") == 200


def test_key_form_works_without_javascript(
    browser: "Browser", service: Service, secret: str
) -> None:
    context = browser.new_context(base_url=service.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/ui/best")
    give(page, "ct_wrong")
    page.get_by_role("alert").get_by_text("not known").wait_for()
    give(page, secret)
    page.wait_for_url("**/ui/best")
    order_and_cancel(page, secret)
    context.close()


def test_swagger_ui_sends_requests_with_the_key_cookie(page: "Page", secret: str) -> None:
    """Swagger UI sends the cookie and breaks no Content-Security-Policy.

    The ``page`` fixture fails on every complaint in the console.
    """
    page.goto("/ui/key?back=/docs")
    give(page, secret)
    page.locator("#operations-jobs-list_jobs_jobs_get").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status").get_by_text("200").wait_for()
    page.get_by_role("button", name="Authorize").first.click()
    page.get_by_text("key (http, Bearer)").first.wait_for()


def test_key_page_has_no_serious_accessibility_violations(page: "Page", secret: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.goto("/ui/key")
    found = axe.run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []

"""Pages with content: accessible, light and dark, on a phone, without scripts, of 10,000 trials."""

import re
from typing import TYPE_CHECKING, Any

import pytest

from api.schemas.orders.model import MODEL_EXAMPLE, ModelOrderBody
from db import models
from db.fleet import devices, workers
from db.queue import Job
from db.results import ladders, trials
from templates import operator
from tests.api.service_rows import GPU, new_trial, running, tuned
from tests.tuner.service_process import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MANY, FEW = 10_000, 100
LIMITS = {**GPU["limits"], "peak_flops": 6.7e13, "peak_bandwidth": 4.8e12}
PAGES = ("/", "job", "/ui/models", "model", "/ui/best", "best", "/ui/devices", "/ui/ladder")


@pytest.fixture(scope="module")
def long_job(service: Service) -> Job:
    return measured(service, {"M": 101, "N": 3}, MANY)


@pytest.fixture(scope="module")
def job(service: Service, long_job: Job) -> Job:
    """A running job with a few trials.

    The service also has another job of its workload, bests, a model, a worker and a ladder.
    """
    engine = service.engine
    device = devices.upsert_device(engine, GPU | {"limits": LIMITS})
    shape = {"M": 16384, "N": 32}
    tuned(engine, "conv1d", shape, GPU | {"limits": LIMITS})
    workload = operator("conv1d").workload.model_validate(shape)
    row: dict[str, Any] = {
        "what": "rung", "adds": "a step", "document": "000", "timing": None, "max_error": None,
        "over_naive": 2.0, "over_before": None, "t4_us": 25.0, "note": None,
    }  # fmt: skip
    climbed = ladders.NewLadder(
        operator="conv1d",
        workload_key=workload.key,
        workload=workload.model_dump(),
        device_id=device.id,
        rows=[row | {"name": f"000 v{n}", "time_us": 80.0 / n} for n in range(1, 5)],
        documents=[{"number": "000", "title": "A document", "workload": workload.model_dump()}],
        clocks={},
        versions={},
    )
    ladders.record(engine, climbed)
    tuned(engine, "conv1d", {"M": 100, "N": 3}, GPU | {"limits": LIMITS})
    held = measured(service, {"M": 100, "N": 3}, FEW)
    models.submit(engine, ModelOrderBody.model_validate(MODEL_EXAMPLE | {"trials": 2}).order())
    said = {"host": "here", "pid": 7, "version": "0.1.0", "device_id": device.id}
    workers.beat(engine, "worker-1", job_id=held.id, **said)
    return held


def measured(service: Service, shape: dict[str, int], count: int) -> Job:
    """Return a running job of ``count`` trials that has all of them but the last."""
    device = devices.upsert_device(service.engine, GPU | {"limits": LIMITS})
    held = running(service.engine, "conv1d", shape, trials=count)
    new = [
        new_trial(device, 20_000 - number, status="ok" if number % 9 else "wrong_answer")
        for number in range(count - 1)
    ]
    trials.add(service.engine, held.id, held.attempt, new)
    return held


def path_of(name: str, job: Job, model: str = "") -> str:
    """Return the path of a page by its name in PAGES."""
    return {
        "job": f"/ui/jobs/{job.id}",
        "model": f"/ui/models/{model}",
        "best": "/ui/best/conv1d?M=16384&N=32",
    }.get(name, name)


@pytest.fixture
def model(service: Service, job: Job) -> str:
    """The id of a model of which one layer shares a best and one waits for its job."""
    return models.list_models(service.engine).items[0].id


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_has_no_serious_accessibility_violations(
    page: "Page", job: Job, model: str, name: str, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(path_of(name, job, model))
    if name == "job":
        page.locator(".curve[data-points]").first.wait_for()
    rules = None if scheme == "light" else {"runOnly": ["color-contrast"]}
    found = axe.run(page, options=rules).response["violations"]
    serious = [
        (each["id"], node["html"][:200], node["failureSummary"])
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert serious == []


def test_curve_of_10000_trials_is_thinned_and_updated(
    page: "Page", service: Service, long_job: Job
) -> None:
    page.goto(path_of("job", long_job))
    page.wait_for_function("() => document.querySelector('.curve').dataset.trials == '9999'")
    drawn = int(page.locator(".curve").first.get_attribute("data-points") or 0)
    assert 0 < drawn <= 900
    device = devices.upsert_device(service.engine, GPU | {"limits": LIMITS})
    trials.add(service.engine, long_job.id, long_job.attempt, [new_trial(device, 5)])
    page.wait_for_function("() => document.querySelector('.curve').dataset.trials == '10000'")
    page.get_by_text("10,000 of 10,000").wait_for()


def test_another_jobs_curve_is_drawn_for_comparison(page: "Page", job: Job) -> None:
    page.goto(path_of("job", job))
    page.locator("#beside").select_option(index=1)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile("beside=[0-9a-f]{32}"))
    page.locator('.curve[data-beside="2"]').first.wait_for()
    page.get_by_role("region", name="Both jobs").get_by_role("link").click()
    page.wait_for_url(re.compile(f"beside={job.id}"))


def test_job_is_ordered_and_cancelled_without_javascript(
    browser: "Browser", service: Service, job: Job
) -> None:
    context = browser.new_context(base_url=service.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/?operator=depthwise_conv2d")
    page.locator('[name="workload.K"]').fill("5")
    page.get_by_role("button", name="Order").click()
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-f]{32}"))
    assert "K=5" in page.locator("h1").inner_text()
    page.get_by_role("button", name="Cancel").click()
    page.locator(".state.cancelled").wait_for()
    context.close()


def test_model_is_followed_and_cancelled_without_javascript(
    browser: "Browser", service: Service, model: str
) -> None:
    context = browser.new_context(base_url=service.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/ui/models")
    page.get_by_role("link", name="two_layers").click()
    page.wait_for_url(f"**/ui/models/{model}")
    page.get_by_role("button", name="Cancel the model two_layers").click()
    page.locator(".figure .state.cancelled").wait_for()
    context.close()


def test_order_form_switches_the_operator_in_place(page: "Page", job: Job) -> None:
    page.goto("/")
    page.get_by_role("link", name="depthwise_conv2d", exact=True).first.click()
    page.locator('[name="workload.K"]').wait_for()
    assert page.evaluate("document.activeElement.id") == "tab-depthwise_conv2d"
    assert page.url.endswith("/")


def cut(page: "Page") -> list[str]:
    """Return the ids or tags of elements whose content is wider than they are."""
    found: list[str] = page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll(".scroll")]
            .filter(each => each.scrollWidth > each.clientWidth + 1)
            .map(each => each.id || each.tagName)"""
    )
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page_content_fits_on_a_phone(page: "Page", job: Job, model: str, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path_of(name, job, model))
    if name == "job":
        page.locator(".curve[data-points]").first.wait_for()
    assert cut(page) == []


def test_trials_are_filtered_and_sorted_in_place(page: "Page", job: Job) -> None:
    page.goto(path_of("job", job))
    page.locator("#trials-status").select_option("wrong_answer")
    page.locator("#trials:has(.state.failed):not(:has(.state.ok))").wait_for()
    page.wait_for_url("**status=wrong_answer*")
    page.locator("#sort-number").click()
    page.locator("#trials th[aria-sort=descending]").wait_for()
    assert page.locator("#trials tbody td").first.inner_text() == "91"
    with page.expect_download() as loading:
        page.get_by_role("link", name="as CSV").click()
    lines = loading.value.path().read_text().splitlines()
    assert lines[0].startswith("number,status,")
    assert len(lines) == 1 + FEW // 9
    assert all(",wrong_answer," in line for line in lines[1:])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_docs_page_follows_the_color_scheme_and_links_to_the_jobs(
    page: "Page", scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/docs")
    page.locator(".opblock").first.wait_for()
    shade = page.evaluate(
        """() => getComputedStyle(document.documentElement.querySelector(".swagger-ui"))
            .color.match(/\\d+/g).map(Number)[0]"""
    )
    assert (shade > 128) == (scheme == "dark")
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("heading", name="Jobs").wait_for()

"""The main flow in a browser: order a job, watch it, cancel it, and run the tuned kernel."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.processes import Worker
from tests.tuner.service_process import Service

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENSHOTS = os.environ.get("TUNER_TEST_SCREENSHOTS")
"""Folder, relative to the project's root, for a screenshot of each page; None makes none."""


def order(page: "Page", trials: int, **shape: int) -> None:
    """Fill in the form on the first page and order a random search on the CPU."""
    page.goto("/")
    for name, value in shape.items():
        page.locator(f'[name="workload.{name}"]').fill(str(value))
    page.locator('[name="target"]').select_option("cpu")
    page.locator('[name="search"]').select_option("random")
    page.locator('[name="trials"]').fill(str(trials))
    page.get_by_role("button", name="Order").click()
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-f]{32}"))


def points(page: "Page") -> int:
    """Return the number of points that the curve shows."""
    return int(page.locator(".curve").first.get_attribute("data-points") or 0)


def wait_for(page: "Page", count: int) -> None:
    """Wait until the curve shows at least so many points."""
    page.wait_for_function(
        "count => Number(document.querySelector('.curve').dataset.points) >= count",
        arg=count,
        timeout=90_000,
    )


def test_job_is_ordered_watched_and_its_kernel_run_from_the_browser(
    page: "Page", worker: Worker, tmp_path: Path, root: Path
) -> None:
    order(page, 16, M=4096, N=16)
    wait_for(page, 1)
    first = points(page)
    page.locator("#live .state.running").first.wait_for()
    wait_for(page, first + 1)
    box = page.locator(".curve .u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "template=" in page.locator("#pointed").inner_text()
    page.locator("#live .state.succeeded").first.wait_for(timeout=120_000)
    wait_for(page, 16)
    assert page.locator("#live[data-running]").count() == 0

    page.get_by_role("link", name="Take the kernel").click()
    page.wait_for_url(re.compile("/ui/best/conv1d"))
    page.get_by_role("button", name="Copy the Python snippet").click()
    page.get_by_text("Copied").wait_for()
    snippet = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(4111,) float32 ")


def test_job_is_cancelled_by_keyboard(page: "Page", worker: Worker) -> None:
    order(page, 100_000, M=300, N=5)
    wait_for(page, 1)
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    page.locator("#live .state.cancelled").wait_for(timeout=60_000)
    page.get_by_role("link", name="Duplicate").click()
    assert page.locator('[name="workload.M"]').input_value() == "300"
    assert page.locator('[name="trials"]').input_value() == "100000"


def test_job_list_refreshes_without_losing_the_focus(page: "Page", worker: Worker) -> None:
    page.goto("/")
    page.locator("#jobs tbody a").first.focus()
    held = page.evaluate("document.activeElement.id")
    assert held.startswith("job-")
    page.evaluate("document.querySelector('#jobs table').dataset.old = 'yes'")
    page.locator("#jobs table:not([data-old])").wait_for()
    assert page.evaluate("document.activeElement.id") == held


@pytest.mark.skipif(SCREENSHOTS is None, reason="TUNER_TEST_SCREENSHOTS names no folder")
def test_screenshot_of_each_page_is_written(
    page: "Page", service: Service, worker: Worker, root: Path
) -> None:
    """Write a screenshot of each page, with results of a real worker, to that folder."""
    order(page, 256, M=16384, N=32)
    job = page.url
    wait_for(page, 100)
    folder = root / str(SCREENSHOTS)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [Path(sys.executable).with_name("tuner"), "ladder", "conv1d", "--document", "000"],
        cwd=root,
        env={**os.environ, "TUNER_DATABASE_URL": service.engine.url.render_as_string()},
        check=True,
        capture_output=True,
    )
    page.goto(job)
    page.locator("#live .state.succeeded").wait_for(timeout=200_000)
    paths = {
        "jobs": "/",
        "job": job,
        "bests": "/ui/best",
        "best": "/ui/best/conv1d?M=16384&N=32",
        "devices": "/ui/devices",
        "ladder": "/ui/ladder",
    }
    for name, path in paths.items():
        page.goto(path)
        if name == "job":
            page.locator(".curve[data-points]").first.wait_for()
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        if name == "job":  # the README shows only the top of this page
            page.screenshot(path=folder / "job-top.png")

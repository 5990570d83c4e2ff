"""The actor that orders jobs, repeats orders and cancels jobs, and the orders that it draws."""

from __future__ import annotations

import random
import time
from threading import Event
from typing import Any

import httpx2

from tests.soak.actor import Actor, Site

OPEN = 3
"""Number of jobs that are open at a time, so that workers have work and no queue grows."""
SEARCHES = ("xgb", "xgb", "random", "grid", "evolutionary")
SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        ("conv1d", {"M": length, "N": taps, "mode": mode})
        for length in (96, 256, 700, 1500)
        for taps, mode in ((3, "full"), (9, "same"), (31, "valid"), (64, "full"))
    ),
    *(
        ("depthwise_conv2d", {"B": 1, "C": channels, "H": side, "W": side + 1, "K": taps} | more)
        for channels in (2, 6)
        for side in (7, 14)
        for taps, more in ((3, {}), (5, {"stride": 2}), (3, {"max_error": 1e-3}))
    ),
)
ON_ANOTHER_DEVICE = {"operator": "conv1d", "workload": {"M": 4096, "N": 16}, "target": "cuda"}
"""An order that no worker of the soak takes: it stays open until it is cancelled."""


class Orderer(Actor):
    """Keeps OPEN jobs open; repeats some orders with their Idempotency-Key, cancels some jobs."""

    def __init__(self, site: Site, seed: int, over: Event) -> None:
        super().__init__(site, seed, over)
        self._to_cancel: list[tuple[float, str]] = []

    def visit(self) -> None:
        with self.site.http(self.site.submit_key) as http:
            for _ in range(20):
                if self.over.is_set():
                    return
                if self._open(http) < OPEN:
                    self._order(http)
                self._cancel(http)
                self.rest(0.6)

    def _open(self, http: httpx2.Client) -> int:
        open_ = 0
        for state in ("queued", "running"):
            answer = self.site.tally.ask(http, "GET", f"/jobs?state={state}&limit=20")
            if answer is None:
                return OPEN  # unknown: order nothing until the next look
            open_ += sum(job["target"] != "cuda" for job in answer.json()["items"])
        return open_

    def _order(self, http: httpx2.Client) -> None:
        tally, draw = self.site.tally, self.draw
        order = an_order(draw)
        repeated = draw.random() < 0.3
        headers = {"Idempotency-Key": f"{draw.getrandbits(128):032x}"} if repeated else {}
        answer = tally.ask(http, "POST", "/jobs", (200, 201), json=order, headers=headers)
        if answer is None:
            return
        job = answer.json()["id"]
        tally.did("ordered" if answer.status_code == 201 else "ordered, there already")
        self.site.jobs.append(job)
        if repeated:
            again = tally.ask(http, "POST", "/jobs", (200,), json=order, headers=headers)
            tally.did("repeated")
            if again is not None and again.json()["id"] != job:
                tally.went_wrong(f"an order repeated with its key made {again.json()['id']}")
        if draw.random() < 0.15:
            self._to_cancel.append((time.monotonic() + draw.uniform(0, 5), job))

    def _cancel(self, http: httpx2.Client) -> None:
        now = time.monotonic()
        due = [job for when, job in self._to_cancel if when <= now]
        self._to_cancel = [each for each in self._to_cancel if each[0] > now]
        for job in due:
            answer = self.site.tally.ask(http, "POST", f"/jobs/{job}/cancel", (202, 409))
            if answer is not None and answer.status_code == 202:
                self.site.tally.did("cancelled")


def an_order(draw: random.Random) -> dict[str, Any]:
    """Return a random order, as ``POST /jobs`` takes it."""
    operator, workload = draw.choice(SHAPES)
    return {
        "operator": operator,
        "workload": workload,
        "target": draw.choice(("cpu", "auto")),
        "trials": draw.randint(3, 10),
        "search": draw.choice(SEARCHES),
        "on_existing": "reuse" if draw.random() < 0.1 else "retune",
        "seed": draw.choice((None, draw.randrange(1000))),
        "patience": 3 if draw.random() < 0.2 else None,
        "warm_start": draw.random() < 0.8,
    }

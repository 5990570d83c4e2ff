"""The actor that reads as programs, browsers and Prometheus do."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import urlencode

import httpx2

from tests.soak.actor import Actor
from tests.soak.orders import SHAPES

HTML = {"Accept": "text/html"}
PLAIN = (
    "/metrics",
    "/workers",
    "/operators",
    "/operators/conv1d",
    "/jobs?limit=50",
    "/jobs?state=succeeded&limit=5",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/records?of=bests",
    "/records?format=metaschedule",
    "/static/app.js",
)
PAGES = ("/", "/ui/jobs", "/ui/best", "/ui/devices", "/ui/ladder", "/docs", "/ui/key")
OF_A_JOB = ("", "/trials?limit=3", "/trials")
PAGES_OF_A_JOB = ("", "/live", "/curve")


class Reader(Actor):
    """Makes up to forty reads a visit, on one client; files must match their SHA-256."""

    def visit(self) -> None:
        looks = (self._plain, self._page, self._job, self._best, self._best, self._log)
        with self.site.http() as http:
            for _ in range(40):
                if self.over.is_set():
                    return
                self.draw.choice(looks)(http)
                self.rest(0.2)

    def _plain(self, http: httpx2.Client) -> None:
        self.site.tally.ask(http, self.draw.choice(("GET", "GET", "HEAD")), self.draw.choice(PLAIN))

    def _page(self, http: httpx2.Client) -> None:
        self.site.tally.ask(http, "GET", self.draw.choice(PAGES), headers=HTML)

    def _job(self, http: httpx2.Client) -> None:
        job = self.some_job()
        if job is None:
            return
        self.site.tally.ask(http, "GET", f"/jobs/{job}{self.draw.choice(OF_A_JOB)}")
        page = self.draw.choice(PAGES_OF_A_JOB)
        self.site.tally.ask(http, "GET", f"/ui/jobs/{job}{page}", headers=HTML)

    def _log(self, http: httpx2.Client) -> None:
        job, form = self.some_job(), self.draw.choice(("convtune", "autotvm", "kerneltuner"))
        if job is not None:
            self.site.tally.ask(http, "GET", f"/records?job={job}&format={form}")
        if self.draw.random() < 0.05:  # the log of all jobs
            self.site.tally.ask(http, "GET", f"/records?format={form}")

    def _best(self, http: httpx2.Client) -> None:
        operator, workload = self.draw.choice(SHAPES)
        query = urlencode(workload)
        match = self.draw.choice(("", "&match=nearest"))
        path = f"/best/{operator}?{query}{match}"
        answer = self.site.tally.ask(http, "GET", path, (200, 404))
        page = f"/ui/best/{operator}?{query}"
        self.site.tally.ask(http, "GET", page, (200, 404), headers=HTML)
        if answer is None or answer.status_code != 200:
            return
        known = {"If-None-Match": answer.headers["ETag"]}
        self.site.tally.ask(http, "GET", path, (200, 304, 404), headers=known)
        for file in json.loads(answer.content)["artifacts"].values():
            if file is not None:
                self._file(http, file["url"], file["sha256"])

    def _file(self, http: httpx2.Client, url: str, sha256: str) -> None:
        # 404 is right, too: a job that ended meanwhile may have replaced the best
        if self.draw.random() < 0.2:
            part = {"Range": "bytes=0-99"}
            self.site.tally.ask(http, "GET", url, (206, 404), headers=part)
            return
        answer = self.site.tally.ask(http, "GET", url, (200, 404))
        if answer is None or answer.status_code == 404:
            return
        if hashlib.sha256(answer.content).hexdigest() != sha256:
            self.site.tally.went_wrong(f"{url} has other bytes than its name says")

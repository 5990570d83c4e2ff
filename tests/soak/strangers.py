"""The actor whose requests are wrong or not allowed."""

from __future__ import annotations

import json
from typing import Any

from tests.soak.actor import Actor
from tests.soak.orders import an_order

NOBODY = "0" * 32
JSON = {"content-type": "application/json"}
TOO_LARGE = 70_000


class Stranger(Actor):
    """Sends wrong requests; each must be refused with its own status."""

    def visit(self) -> None:
        for _ in range(12):
            if self.over.is_set():
                return
            key, method, path, status, given = self._wrong_request()
            with self.site.http(key) as http:
                self.site.tally.ask(http, method, path, (status,), **given)
                self.site.tally.did(f"refused with {status}")
            self.rest(1.5)

    def _wrong_request(self) -> tuple[str | None, str, str, int, dict[str, Any]]:
        order, submit = an_order(self.draw), self.site.submit_key
        too_long = {**order, "operator": "conv1d", "workload": {"M": 8, "N": 9}}
        unknown = {**order, "haste": True}
        large = json.dumps(order).encode() + b" " * TOO_LARGE
        wrong: tuple[tuple[str | None, str, str, int, dict[str, Any]], ...] = (
            (None, "POST", "/jobs", 401, {"json": order}),
            (f"{submit}x", "POST", "/jobs", 401, {"json": order}),
            (self.site.read_key, "POST", "/jobs", 403, {"json": order}),
            (None, "POST", f"/jobs/{NOBODY}/cancel", 401, {}),
            (submit, "POST", "/jobs", 413, {"content": large, "headers": JSON}),
            (submit, "POST", "/jobs", 422, {"json": too_long}),
            (submit, "POST", "/jobs", 422, {"json": unknown}),
            (submit, "POST", "/jobs", 400, {"content": b"{", "headers": JSON}),
            (submit, "POST", "/jobs", 415, {"content": b"M=8", "headers": {"content-type": "a/b"}}),
            (submit, "PUT", "/jobs", 405, {}),
            (submit, "POST", f"/jobs/{NOBODY}/cancel", 404, {}),
            (submit, "POST", "/records", 422, {"content": b"{}\n", "headers": JSON}),
            (None, "GET", f"/jobs/{NOBODY}", 404, {}),
            (None, "GET", f"/jobs/{NOBODY}/events", 404, {}),
            (None, "GET", f"/artifacts/{'0' * 64}", 404, {}),
            (None, "GET", "/best/conv1d?M=8&N=9", 422, {}),
            (None, "GET", "/jobs?cursor=nonsense", 422, {}),
            (None, "GET", "/nowhere", 404, {}),
        )
        return self.draw.choice(wrong)

"""A client of the service that orders, cancels and reads jobs and remembers the answers.

The service may be gone at any moment.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.no_tls import NO_TLS

LONGEST_CALM = 1.0
TRIALS = (3, 12)


@dataclass
class Memory:
    """What a customer sent and what it was answered.

    ``orders`` are its orders and ``answered`` the ids of their jobs, both by Idempotency-Key.
    ``lost`` are the keys of orders whose answer never came. ``cancelled`` are ids of jobs.
    ``refused`` are the types of answers with status 503. ``wrong`` says in words what must not
    happen but did.
    """

    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    repeated: int = 0  # orders that were sent once more
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Customer(threading.Thread):
    """A thread that acts at random until :meth:`leave`; ``tell`` is given each new job's id."""

    def __init__(self, url: str, number: int, seed: int, tell: Callable[[str], None]) -> None:
        super().__init__(name=f"customer {number}", daemon=True)
        self.memory = Memory()
        self._number, self._tell = number, tell
        self._client = httpx2.Client(base_url=url, timeout=60, verify=NO_TLS)
        self._draw = random.Random(seed * 100 + number)  # noqa: S311  # repeatable
        self._sent: set[str] = set()
        self._leaving = threading.Event()

    def run(self) -> None:
        acts = [self._order, self._order, self._repeat, self._cancel, self._read]
        while not self._leaving.wait(self._draw.uniform(0, LONGEST_CALM)):
            if self.memory.lost and self._draw.random() < 0.5:
                self._send(self.memory.lost.pop(0))
            else:
                self._draw.choice(acts)()

    def leave(self) -> None:
        """Stop, and repeat the orders whose answers were lost. The service must be up."""
        self._leaving.set()
        self.join(60)
        assert not self.is_alive()
        for key in self.memory.lost[:]:
            self._send(key)
            self.memory.lost.remove(key)
        for key in set(self.memory.orders) - set(self.memory.answered):
            self.memory.wrong.append(f"order {key} was never answered")
        self._client.close()

    def _order(self) -> None:
        key = uuid.UUID(int=self._draw.getrandbits(128)).hex
        # each customer has its own shapes, so that no two orders are the same
        length = 1000 * (1 + self._number) + len(self.memory.orders)
        self.memory.orders[key] = {
            "operator": "conv1d",
            "workload": {"M": length, "N": 3},
            "target": "cpu",
            "trials": self._draw.randint(*TRIALS),
            "on_existing": "retune",
            "seed": 1,
        }
        self._send(key)

    def _repeat(self) -> None:
        if self.memory.answered:
            self._send(self._draw.choice(list(self.memory.answered)))

    def _send(self, key: str) -> None:
        known = self.memory.answered.get(key)
        self.memory.repeated += key in self._sent
        self._sent.add(key)
        answer = self._ask("POST", "/jobs", (200, 201), key)
        if answer is None:
            if known is None:
                self.memory.lost.append(key)
            return
        job = answer.json()
        if known is None:
            self.memory.answered[key] = job["id"]
            self._tell(job["id"])
        elif (job["id"], answer.status_code) != (known, 200):
            self.memory.wrong.append(f"order {key} made {known}, then {job['id']}")

    def _cancel(self) -> None:
        if self.memory.answered:
            job_id = self._draw.choice(list(self.memory.answered.values()))
            answer = self._ask("POST", f"/jobs/{job_id}/cancel", (202, 409))
            if answer is not None and answer.status_code == 202:
                self.memory.cancelled.add(job_id)

    def _read(self) -> None:
        if self.memory.answered:
            job_id = self._draw.choice(list(self.memory.answered.values()))
            self._ask("GET", f"/jobs/{job_id}", (200,))

    def _ask(
        self, method: str, path: str, right: tuple[int, ...], key: str | None = None
    ) -> httpx2.Response | None:
        """Return the answer if its status is in ``right``.

        Return None if no answer came, if the service had no database (503), or if the status is
        wrong, which is noted.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        order = None if key is None else self.memory.orders[key]
        try:
            answer = self._client.request(method, path, json=order, headers=headers)
        except httpx2.TransportError:
            return None
        if answer.status_code == 503:
            self.memory.refused.append(answer.json()["type"])
            return None
        if answer.status_code not in right:
            self.memory.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            return None
        return answer

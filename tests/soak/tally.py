"""A count of requests and answers during a soak, with the words of those that were wrong."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from threading import Lock
from typing import Any

import httpx2

KEPT = 20
"""Number of wrong answers, and of broken connections, whose words are kept."""


class Tally:
    """Counts of answers by status and of things done; all actors write to it from their threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.answers: Counter[int] = Counter()
        self.done: Counter[str] = Counter()
        self.unanswered = 0
        self.wrong = 0
        self.said: list[str] = []
        self.broken: deque[str] = deque(maxlen=KEPT)

    def answered(self, status: int) -> None:
        with self._lock:
            self.answers[status] += 1

    def did(self, what: str) -> None:
        with self._lock:
            self.done[what] += 1

    def went_wrong(self, what: str) -> None:
        """Count something that the service must never do."""
        with self._lock:
            self.wrong += 1
            if len(self.said) < KEPT:
                self.said.append(what[:500])

    def broke_off(self, error: Exception) -> None:
        """Count a connection that failed; that alone is no reason to stop."""
        with self._lock:
            self.unanswered += 1
            self.broken.append(f"{type(error).__name__}: {error}"[:200])

    def ask(
        self,
        http: httpx2.Client,
        method: str,
        path: str,
        expected: Collection[int] = (200,),
        **given: Any,
    ) -> httpx2.Response | None:
        """Send a request and count the answer.

        Return the answer if its status is among ``expected``; None if it is not or none came.
        """
        try:
            answer = http.request(method, path, **given)
        except httpx2.RequestError as error:
            self.broke_off(error)
            return None
        self.answered(answer.status_code)
        if answer.status_code in expected:
            return answer
        self.went_wrong(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return None

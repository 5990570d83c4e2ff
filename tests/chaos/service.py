"""The service as a process that a storm kills and starts again at the same address."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2

from tests.no_tls import NO_TLS
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0


class Service:
    """``uvicorn api.main:app`` over the database of ``database_url``; its log is in the folder."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self._log = folder / "service.log"
        self._environment = os.environ | {"TUNER_DATABASE_URL": database_url}
        self._port = str(free_port())
        self.url = f"http://127.0.0.1:{self._port}"
        self._process = self._started()

    def kill(self) -> None:
        """Kill the service with SIGKILL, start a new one and return once it answers."""
        self._process.kill()
        self._process.wait()
        self._process = self._started()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "api.main:app", "--port", self._port],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        with httpx2.Client(base_url=self.url, verify=NO_TLS) as client:
            while True:
                try:
                    client.get("/healthz")
                    return process
                except httpx2.TransportError:
                    assert process.poll() is None, self._log.read_text()
                    assert time.monotonic() < deadline
                    time.sleep(0.02)

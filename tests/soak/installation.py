"""A service and its workers as processes on one SQLite file; the search for leftover processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import psutil

from db.access import keys
from db.sql.engine import migrate, open_engine
from tests.no_tls import NO_TLS
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
MARK = "CONVTUNE_SOAK"
"""Environment variable of all processes of an installation; its value is the folder."""
START_SECONDS = 90.0
STOP_SECONDS = 60.0
ORPHANS_SECONDS = 3.0
"""Time for the kernel to end processes that die with their parent."""
PASSED_ON = ("TUNER_SETTLE_SECONDS", "TUNER_BUILD_CACHE")
"""Settings that a soak takes over from its environment: they change how long a job takes, not
what it does."""
LOG_TAIL = 2000


class Installation:
    """``tuner serve``, worker A and worker B, each a process, with their database and logs.

    Service and worker A run from construction until :meth:`stop`; worker B is started and killed by
    the soak. The logs lie in the folder. ``engine`` is the test's own access to the database.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "soak.db"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        url = f"sqlite:///{self.database}"
        self.engine = open_engine(url)
        migrate(self.engine)
        _, self.submit_key = keys.create(self.engine, "soak", "submit")
        _, self.read_key = keys.create(self.engine, "soak-reader", "read")
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TUNER_") or name in PASSED_ON
        } | {
            MARK: str(folder),
            "TMPDIR": str(self.temporary),
            "TUNER_DATABASE_URL": url,
            "TUNER_LOG_FORMAT": "json",
            "TUNER_BUILD_WORKERS": "1",
            "TUNER_POLL_SECONDS": "0.2",
        }
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.api = self._start("api", "tuner.cli.app", "serve", "--port", str(port))
        self.worker_a = self._start("worker-a", "tuner.worker", "--target", "cpu")
        self.worker_b: subprocess.Popen[bytes] | None = None

    def until_ready(self) -> None:
        """Wait until the service answers and worker A is registered.

        Raise RuntimeError if one of them ends, TimeoutError after START_SECONDS.
        """
        deadline = time.monotonic() + START_SECONDS
        with httpx2.Client(base_url=self.url, verify=NO_TLS) as http:
            while time.monotonic() < deadline:
                self.see_that_it_lives()
                try:
                    if http.get("/workers").raise_for_status().json()["items"]:
                        return
                except httpx2.HTTPError:
                    pass
                time.sleep(0.2)
        raise TimeoutError(f"service and worker did not start within {START_SECONDS:g} s")

    def see_that_it_lives(self) -> None:
        """Raise RuntimeError, with the end of its log, if service or worker A has ended."""
        for name, process in (("api", self.api), ("worker-a", self.worker_a)):
            if process.poll() is not None:
                said = self.log(name).read_text(errors="replace")[-LOG_TAIL:]
                raise RuntimeError(f"{name} ended with {process.returncode}; its log:\n{said}")

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start_b(self) -> None:
        self.worker_b = self._start("worker-b", "tuner.worker", "--target", "cpu")

    def kill_b(self) -> None:
        if self.worker_b is not None:
            self.worker_b.kill()
            self.worker_b.wait()

    def stop_b(self) -> None:
        """Stop worker B with SIGTERM if it runs, and with SIGKILL after STOP_SECONDS."""
        if self.worker_b is not None:
            self.worker_b.terminate()
            _ended(self.worker_b)

    def stop(self) -> dict[str, int]:
        """Stop all processes; return the exit codes of service and worker A.

        The code of a process that had to be killed is -9.
        """
        self.stop_b()
        for process in (self.worker_a, self.api):
            process.terminate()
        return {
            name: _ended(process)
            for name, process in (("api", self.api), ("worker-a", self.worker_a))
        }

    def orphans(self) -> list[str]:
        """Return pid and command line of processes that still live after ORPHANS_SECONDS.

        They are found by the installation's mark, whatever their parent is by then.
        """
        deadline = time.monotonic() + ORPHANS_SECONDS
        while (found := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def close(self) -> None:
        """Kill the processes that still run, and close the database."""
        for process in (self.worker_b, self.worker_a, self.api):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.engine.dispose()

    def _alive(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get(MARK) == str(self.folder)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid}: {' '.join(process.cmdline())}")
            except psutil.Error:
                continue
        return found

    def _start(self, name: str, *module: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *module],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()

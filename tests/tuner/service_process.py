"""The service as a process of its own; the tests share its database file and write to it too."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

from sqlalchemy import Engine

from tests import databases
from tests.ports import free_port

ROOT = Path(__file__).parents[2]


class Service:
    """A process of ``uvicorn api.main:app`` on a free port. ``engine`` is open on its database."""

    def __init__(self, folder: Path, app: str = "api.main:app") -> None:
        self._app = app
        self.engine: Engine = databases.opened(folder / "service.db")
        self._database = self.engine.url.render_as_string()
        self._port = str(free_port())
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", self._app, "--port", self._port],
            cwd=ROOT,
            env={**os.environ, "TUNER_DATABASE_URL": self._database},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            found = re.search(r"running on (http://\S+:(\d+))", line)
            if found:
                self.url, self._port = found.groups()
                break
        self._rest = Thread(target=self._process.stderr.read)
        self._rest.start()

    def freeze(self) -> None:
        """Stop the process by SIGSTOP: its connections stay open, and it sends nothing more."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self._process.wait(30)
        self._rest.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def close(self) -> None:
        self.stop()
        self.engine.dispose()

"""The server's end of a session: the functions that a worker may call on an RPC server.

Each function takes and returns the text of a JSON object, which TVM transmits. They run in the
process that TVM's server forks for a session. No candidate is loaded there: candidates run in the
runner's child process, with its deadline and its limits, as on any worker's device.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import templates
from tuner.compare.measuring import Delivered
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.errors import ChildFailed, NoDiskSpace
from tuner.farm import wire
from tuner.measure import cases
from tuner.process.child_main import die_with_parent
from tuner.process.scratch import must_have_room
from tuner.settings import Settings

IDLE_SECONDS = 600.0
"""A session ends if it gets no call for this long: the worker's host may have vanished."""
LOOK_SECONDS = 5.0
"""How often a session checks whether it is idle."""

Answer = Callable[[str], str]


class Session:
    """One worker's use of this machine's device, with at most one runner at a time.

    ``server`` is an id that all sessions of a server share, and no other server has.
    """

    def __init__(self, device: Device, server: str) -> None:
        self._device, self._server = device, server
        self._runner: Runner | None = None
        self._busy, self._asked = False, time.monotonic()

    def functions(self) -> dict[str, Answer]:
        """Return the functions by the names under which TVM is to register them."""
        asked = (self.describe, self.open, self.measure, self.compare, self.deliver, self.stay)
        return {wire.FUNCTION.format(each.__name__): self._answering(each) for each in asked}

    def describe(self, _: dict[str, Any]) -> dict[str, Any]:
        """Begin the session. Return the device, and the versions that the worker must have, too."""
        self._begin()
        device = asdict(self._device)
        return {"server": self._server, "device": device, "same": wire.REQUIRED_VERSIONS}

    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        """Start a runner for ``workload_key``. It draws the inputs by ``seed``.

        ``timeout`` and ``settle_seconds`` are those of :class:`tuner.compare.runner.Runner`. Raises
        ChildFailed if the inputs or references can't be made, NoDiskSpace if they do not fit the
        scratch space.
        """
        self.close()
        key: str = given["workload_key"]
        must_have_room(cases.size(templates.parse_key(key)), Settings().scratch_bytes)
        self._runner = Runner(
            key, self._device, given["seed"], given["timeout"], given["settle_seconds"]
        )
        self._runner.wait_for_cases()
        return {}

    def measure(self, given: dict[str, Any]) -> dict[str, Any]:
        """Check and time the uploaded ``library``, and remove it."""
        library = _uploaded(given["library"])
        try:
            return asdict(self._opened().measure(library))
        finally:
            library.unlink(missing_ok=True)

    def compare(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a round of the uploaded ``libraries``, by name, and of ``groups`` of peers."""
        libraries = {name: _uploaded(file) for name, file in given["libraries"].items()}
        found = self._opened().compare(libraries, given["finalists"], given["groups"])
        return asdict(found)

    def deliver(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a round of the uploaded libraries, called as users call them, and of ``groups`` of
        peers."""
        delivered = {
            name: Delivered(_uploaded(each["library"]), each["manifest"])
            for name, each in given["delivered"].items()
        }
        found = self._opened().deliver(delivered, given["groups"])
        return asdict(found)

    def stay(self, _: dict[str, Any]) -> dict[str, Any]:
        """Do nothing: the call is a sign of the worker's life."""
        return {}

    def close(self) -> None:
        """End the runner, if there is one."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None

    def _opened(self) -> Runner:
        """Return the runner. Raises LookupError if there is none yet."""
        if self._runner is None:
            raise LookupError("open comes first")
        return self._runner

    def _begin(self) -> None:
        """Prepare the session's process, after TVM has forked it."""
        die_with_parent()  # it must not go on measuring beside the sessions of the next server
        tempfile.tempdir = str(Path.cwd())  # TVM's folder for the session, which its server removes
        Finalize(None, self._end, exitpriority=1)
        threading.Thread(target=self._end_when_idle, daemon=True).start()

    def _end_when_idle(self) -> None:
        """End the session if it gets no call for :data:`IDLE_SECONDS`. Runs in a thread."""
        while self._busy or time.monotonic() - self._asked < IDLE_SECONDS:
            time.sleep(LOOK_SECONDS)
        self._end()  # the main thread can't: it waits in TVM for the worker's next call

    def _end(self) -> None:
        """Close the runner and end this process with exit code 0, however the connection ended.

        Otherwise a reset connection would end this process with an error. TVM's server would then
        end, too, and leave the session's folder behind.
        """
        try:
            self.close()
        finally:
            os._exit(0)

    def _answering(self, function: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
        """Return a function that takes and returns text. Its answer also tells of ChildFailed and
        NoDiskSpace."""

        def answer(text: str) -> str:
            self._busy = True
            try:
                return json.dumps(function(json.loads(text)))
            except (ChildFailed, NoDiskSpace) as error:
                return json.dumps({"failed": str(error)})
            finally:
                self._asked, self._busy = time.monotonic(), False

        return answer


def _uploaded(name: str) -> Path:
    """Return the path of a file that was uploaded in this session: TVM puts it into its folder."""
    return Path.cwd() / Path(name).name

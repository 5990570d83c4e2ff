"""The far end of a session: what a worker may ask of an RPC server. Each function takes and gives
the text of a JSON object; TVM carries it.

Runs in the process that TVM's server forks for a session. No candidate is loaded here: they run
in the runner's own child, under its deadline and its limits, as on any worker's device.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
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
"""A session that is asked nothing for so long ends: its worker's host may have vanished."""
LOOK_SECONDS = 5.0

Answer = Callable[[str], str]


class Session:
    """One worker's use of this machine's device; at most one runner at a time. ``server`` is the
    same in all sessions of a server, and in no other's."""

    def __init__(self, device: Device, server: str) -> None:
        self._device, self._server = device, server
        self._runner: Runner | None = None
        self._busy, self._asked = False, time.monotonic()

    def functions(self) -> dict[str, Answer]:
        """By the names under which TVM is to know them."""
        asked = (self.describe, self.open, self.measure, self.compare, self.deliver, self.stay)
        return {wire.FUNCTION.format(each.__name__): self._answering(each) for each in asked}

    def describe(self, _: dict[str, Any]) -> dict[str, Any]:
        """The device, and the versions that must be the worker's too."""
        self._begin()
        device = wire.device_to_json(self._device)
        return {"server": self._server, "device": device, "same": wire.SAME}

    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        """Draw the inputs of a ``workload_key`` by ``seed`` and work out their references;
        ``timeout`` is for each measurement, ``settle_seconds`` as of a Runner."""
        self.close()
        key: str = given["workload_key"]
        must_have_room(cases.size(templates.parse_key(key)), Settings().scratch_bytes)
        self._runner = Runner(
            key, self._device, given["seed"], given["timeout"], given["settle_seconds"]
        )
        self._runner.ready()
        return {}

    def measure(self, given: dict[str, Any]) -> dict[str, Any]:
        """Check and time the uploaded ``library``."""
        library = _uploaded(given["library"])
        try:
            return wire.measured_to_json(self._opened().measure(library))
        finally:
            library.unlink(missing_ok=True)

    def compare(self, given: dict[str, Any]) -> dict[str, Any]:
        """The round of the uploaded ``libraries`` by name, with ``groups`` of peers."""
        libraries = {name: _uploaded(file) for name, file in given["libraries"].items()}
        found = self._opened().compare(libraries, given["finalists"], given["groups"])
        return wire.comparison_to_json(found)

    def deliver(self, given: dict[str, Any]) -> dict[str, Any]:
        """The uploaded libraries with their manifests, as their users have them."""
        delivered = {
            name: Delivered(_uploaded(each["library"]), each["manifest"])
            for name, each in given["delivered"].items()
        }
        found = self._opened().deliver(delivered, given["groups"])
        return wire.comparison_to_json(found)

    def stay(self, _: dict[str, Any]) -> dict[str, Any]:
        """Nothing but a sign of the worker's life."""
        return {}

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._runner = None

    def _opened(self) -> Runner:
        if self._runner is None:
            raise LookupError("open comes first")
        return self._runner

    def _begin(self) -> None:
        """Only in the session's own process, after the fork."""
        die_with_parent()  # else it would measure on, beside the sessions of the next server
        tempfile.tempdir = str(Path.cwd())  # TVM's for this session, which its server removes
        Finalize(None, self._end, exitpriority=1)
        threading.Thread(target=self._end_when_idle, daemon=True).start()

    def _end_when_idle(self) -> None:
        while self._busy or time.monotonic() - self._asked < IDLE_SECONDS:
            time.sleep(LOOK_SECONDS)
        self._end()  # the other thread waits in TVM for a word from the worker

    def _end(self) -> None:
        """However the connection ended: TVM's server would end too, and leave the folder, if this
        process exited with an error, as it does where the connection is reset."""
        try:
            self.close()
        finally:
            os._exit(0)

    def _answering(self, function: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
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
    """A file of this session; TVM puts uploads into its folder."""
    return Path.cwd() / Path(name).name

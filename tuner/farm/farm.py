"""The servers that a tracker has under one key."""

from __future__ import annotations

from tuner.device import Device
from tuner.errors import ChildFailed, NoServer
from tuner.farm import link, wire
from tuner.farm.runner import CONNECT_SECONDS, ENVIRONMENT, FarmRunner
from tuner.measure.child import Child

ASK_SECONDS = 20.0


class Farm:
    """``tracker`` is host and port. Servers of one key are to have the same device: that of the
    first that answers is the farm's, and others are left out."""

    def __init__(self, tracker: tuple[str, int], key: str) -> None:
        """Raises NoServer where the tracker does not answer or no server is free."""
        self.tracker, self.key = tracker, key
        self._child = Child(ENVIRONMENT)
        self.device = self._first()

    def must_be_free(self) -> None:
        """Raises NoServer where no server is, or the tracker does not answer."""
        known, free = self._servers()
        if free == 0:
            raise NoServer(self.tracker, self.key, f"none of its {known} is free")

    def runner(self, workload_key: str, seed: int, timeout: float) -> FarmRunner:
        """A session with each server that there is now. Raises NoServer where there is none."""
        known, _ = self._servers()
        if known == 0:
            raise NoServer(self.tracker, self.key, "the tracker has none under this key")
        return FarmRunner(
            self.tracker, self.key, self.device, known, workload_key, seed=seed, timeout=timeout
        )

    def close(self) -> None:
        self._child.close()

    def _servers(self) -> tuple[int, int]:
        try:
            return self._child.call(link.servers, self.tracker, self.key, timeout=ASK_SECONDS)
        except ChildFailed as error:
            raise NoServer(self.tracker, self.key, str(error)) from error

    def _first(self) -> Device:
        try:
            said = self._child.call(link.connect, self.tracker, self.key, timeout=CONNECT_SECONDS)
        except ChildFailed as error:
            self._child.close()
            raise NoServer(self.tracker, self.key, str(error)) from error
        self._child.close()  # the session ends with its process: the server is free again
        wire.check_same(said["same"])
        return wire.device_from_json(said["device"])

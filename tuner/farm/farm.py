"""The servers that a tracker has under one key."""

from __future__ import annotations

import time

from tuner.compare.comparison import SETTLE_SECONDS
from tuner.device.device import Device
from tuner.errors import ChildFailed, ChildTimeout, NoServer
from tuner.farm import link, wire
from tuner.farm.runner import CONNECT_SECONDS, ENVIRONMENT, IMPORTED, FarmRunner
from tuner.process.child import Child
from tuner.process.stopping import pause

ASK_SECONDS = 20.0
FREE_SECONDS = 20.0
LOOK_SECONDS = 0.5


class Farm:
    """``tracker`` is host and port. Servers of one key are to have the same device: that of the
    first that answers is the farm's, and others are left out."""

    def __init__(self, tracker: tuple[str, int], key: str) -> None:
        """Raises NoServer if the tracker does not answer or no server is free."""
        self.tracker, self.key = tracker, key
        self._child = Child(ENVIRONMENT, importing=IMPORTED)
        self.device = self._first()

    def await_free(self, seconds: float = FREE_SECONDS) -> None:
        """Return as soon as a server is free: one that a job has just left takes a moment. Raises
        NoServer if none is in time, or the tracker does not answer."""
        deadline = time.monotonic() + seconds
        while (servers := self._servers()).free == 0:
            if time.monotonic() > deadline:
                why = f"none of its {servers.known} was free for {seconds:g} s"
                raise NoServer(self.tracker, self.key, why)
            pause(LOOK_SECONDS)

    def runner(
        self,
        workload_key: str,
        seed: int,
        timeout: float,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> FarmRunner:
        """A session with each server that there is now. Raises NoServer if there is none."""
        servers = self._servers()
        if servers.known == 0:
            raise NoServer(self.tracker, self.key, "the tracker has none under this key")
        return FarmRunner(
            self.tracker,
            self.key,
            self.device,
            servers.known,
            workload_key,
            seed=seed,
            timeout=timeout,
            settle_seconds=settle_seconds,
        )

    def close(self) -> None:
        self._child.close()

    def _servers(self) -> link.Servers:
        try:
            return self._child.call(link.servers, self.tracker, self.key, timeout=ASK_SECONDS)
        except ChildTimeout as error:
            why = f"the tracker did not answer for {ASK_SECONDS:g} s; start it first"
            raise NoServer(self.tracker, self.key, why) from error
        except ChildFailed as error:
            raise NoServer(self.tracker, self.key, str(error)) from error

    def _first(self) -> Device:
        try:
            known = self._servers().known
            said = self._child.call(link.connect, self.tracker, self.key, timeout=CONNECT_SECONDS)
        except ChildTimeout as error:
            why = f"none of its {known} was free for {CONNECT_SECONDS:g} s"
            raise NoServer(self.tracker, self.key, why) from error
        except ChildFailed as error:
            raise NoServer(self.tracker, self.key, str(error)) from error
        finally:
            self._child.close()  # the session ends with its process: the server is free again
        return wire.introduced(said).device

"""Farm: the RPC servers that a tracker has under one key."""

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
"""Limit for the tracker's answer."""
FREE_SECONDS = 20.0
"""How long :meth:`Farm.await_free` waits for a free server."""
LOOK_SECONDS = 0.5
"""Pause between two questions to the tracker."""


class Farm:
    """The servers that the tracker at ``tracker``, a host and a port, has under ``key``.

    All servers of a key should have the same device. The farm's device is that of the first server
    to answer. Servers with another device are not used.
    """

    def __init__(self, tracker: tuple[str, int], key: str) -> None:
        """Ask a server for its device.

        Raises NoServer if the tracker does not answer or no server is free; ForeignServer if the
        server has other versions of convtune or TVM.
        """
        self.tracker, self.key = tracker, key
        self._child = Child(ENVIRONMENT, importing=IMPORTED)
        self.device = self._first()

    def await_free(self, seconds: float = FREE_SECONDS) -> None:
        """Wait until a server is free. A server that a job has just left takes a moment.

        Raises NoServer if no server is free within ``seconds``, or if the tracker does not answer.
        """
        deadline = time.monotonic() + seconds
        while (servers := self._servers()).free == 0:
            if time.monotonic() > deadline:
                why = f"none of its {servers.known} servers was free for {seconds:g} s"
                raise NoServer(self.tracker, self.key, why)
            pause(LOOK_SECONDS)

    def runner(
        self,
        workload_key: str,
        seed: int,
        timeout: float,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> FarmRunner:
        """Return a runner with a session for each server that the tracker has now.

        ``seed``, ``timeout`` and ``settle_seconds`` are those of
        :class:`tuner.compare.runner.Runner`. Raises NoServer if there is no server.
        """
        servers = self._servers()
        if servers.known == 0:
            raise NoServer(self.tracker, self.key, "the tracker has no server under this key")
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
        """End the process that asks the tracker."""
        self._child.close()

    def _servers(self) -> link.Servers:
        """Return how many servers there are. Raises NoServer if the tracker does not answer."""
        try:
            return self._child.call(link.servers, self.tracker, self.key, timeout=ASK_SECONDS)
        except ChildTimeout as error:
            why = f"the tracker did not answer for {ASK_SECONDS:g} s; start it first"
            raise NoServer(self.tracker, self.key, why) from error
        except ChildFailed as error:
            raise NoServer(self.tracker, self.key, str(error)) from error

    def _first(self) -> Device:
        """Return the device of the first server that is free."""
        try:
            known = self._servers().known
            answer = self._child.call(link.connect, self.tracker, self.key, timeout=CONNECT_SECONDS)
        except ChildTimeout as error:
            why = f"none of its {known} servers was free for {CONNECT_SECONDS:g} s"
            raise NoServer(self.tracker, self.key, why) from error
        except ChildFailed as error:
            raise NoServer(self.tracker, self.key, str(error)) from error
        finally:
            self._child.close()  # this ends the session, so the server is free again
        return wire.read_introduction(answer).device

"""An RPC server that draws inputs slowly, and whose sessions end after two seconds without work."""

import time
from typing import Any

from tuner.farm import server, session

OPEN_SECONDS = 6.0
IDLE_SECONDS = 2.0


class Sleepy(session.Session):
    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        time.sleep(OPEN_SECONDS)
        return super().open(given)


if __name__ == "__main__":
    session.IDLE_SECONDS, session.LOOK_SECONDS = IDLE_SECONDS, 0.1
    server.Session = Sleepy  # type: ignore[misc]
    server.main()

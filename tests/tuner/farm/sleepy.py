"""An RPC server that draws its inputs only when a file exists, and that ends a session after
IDLE_SECONDS without work."""

import os
import time
from pathlib import Path
from typing import Any

from tuner.farm import server, session

DRAWN = "CONVTUNE_TEST_DRAWN"
"""The environment variable that names the file."""
IDLE_SECONDS = 4.0


class Sleepy(session.Session):
    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        while not Path(os.environ[DRAWN]).exists():
            time.sleep(0.05)
        return super().open(given)


if __name__ == "__main__":
    session.IDLE_SECONDS, session.LOOK_SECONDS = IDLE_SECONDS, 0.1
    server.Session = Sleepy  # type: ignore[misc]
    server.main()

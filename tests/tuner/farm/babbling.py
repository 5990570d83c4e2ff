"""An RPC server whose answers are no valid measurements."""

from typing import Any

from tuner.farm import server, session


class Babbling(session.Session):
    def measure(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"status": "ok", "timing": "fast"}


if __name__ == "__main__":
    server.Session = Babbling  # type: ignore[misc]
    server.main()

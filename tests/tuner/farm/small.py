"""An RPC server that has too little memory for any job's inputs."""

from typing import Any

from tuner.errors import ChildFailed
from tuner.farm import server, session


class Small(session.Session):
    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        raise ChildFailed("MemoryError: no memory for the inputs")


if __name__ == "__main__":
    server.Session = Small  # type: ignore[misc]
    server.main()

"""`python -m db.migrations` upgrades the database of TUNER_DATABASE_URL to this code's schema."""

import os
import sys

from db.sql.engine import migrate, open_engine
from db.sql.errors import StorageError


def main() -> int:
    """Upgrade the database, and return the exit status: 1, with a message on stderr, on failure."""
    try:
        engine = open_engine(os.environ.get("TUNER_DATABASE_URL", "sqlite:///convtune.db"))
        migrate(engine)
        engine.dispose()
    except StorageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A sound database that can't be read because of the process's limit on file sizes."""

import subprocess
import sys
from pathlib import Path

from storage_rows import submitted

from db.sql.engine import migrate, open_engine
from db.upkeep.backup import back_up

SCRIPT = """
import resource, signal, sys
from pathlib import Path
from db.sql.errors import BackupRefused
from db.upkeep.backup import back_up
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    back_up(sys.argv[1], Path(sys.argv[2]))
except BackupRefused as error:
    print(error)
"""
"""The limit of 1000 bytes is smaller than the files that SQLite makes to open a database."""


def test_unreadable_database_is_not_reported_as_damaged(tmp_path: Path) -> None:
    """A user who was told so would restore a backup, and lose everything stored since."""
    file, copy = tmp_path / "convtune.db", tmp_path / "copy.db"
    engine = open_engine(f"sqlite:///{file}")
    migrate(engine)
    submitted(engine)
    engine.dispose()
    command = [sys.executable, "-c", SCRIPT, f"sqlite:///{file}", str(copy)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.startswith(f"{file} can't be read (disk I/O error); "), said
    assert not copy.exists()
    back_up(f"sqlite:///{file}", copy)

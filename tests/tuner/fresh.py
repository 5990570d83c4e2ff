"""Code in a process that has run nothing before."""

import subprocess
import sys


def run(code: str, *arguments: object) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

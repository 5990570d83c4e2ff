"""Run code in a new Python process, in which nothing has been imported or run yet."""

import subprocess
import sys


def run(code: str, *arguments: object) -> str:
    """Run ``python -c CODE ARGUMENTS``; return what it prints, stripped. It must exit with 0 within
    60 s."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

"""The check for known faults of the pinned packages fails if it could not look one up."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_package_that_is_not_found_fails_the_audit() -> None:
    """Without --strict pip-audit passes them over, all of them behind an index of one's own."""
    steps = subprocess.run(
        ["make", "--dry-run", "audit"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (audit,) = [line for line in steps.stdout.splitlines() if "bin/pip-audit" in line]
    assert "--strict" in audit.split()

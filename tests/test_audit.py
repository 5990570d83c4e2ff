"""``make audit`` fails if it cannot look up a pinned package among known vulnerabilities."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_package_that_is_not_found_fails_the_audit() -> None:
    """Without --strict, pip-audit skips a package that it can't find.

    Behind a private package index that would be every package.
    """
    steps = subprocess.run(
        ["make", "--dry-run", "audit"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (audit,) = [line for line in steps.stdout.splitlines() if "bin/pip-audit" in line]
    assert "--strict" in audit.split()

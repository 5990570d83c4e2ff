"""The demo, with few trials: it keeps its database, and the commands that it suggests work."""

import os
import re
import subprocess
import sys
from pathlib import Path

from processes import ROOT, SECONDS

DEMO = "from tuner.cli import demo; demo.TRIALS = dict.fromkeys(demo.TRIALS, 2); demo.main()"


def test_the_demo_keeps_its_database(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TUNER_BUILD_WORKERS": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def said(*command: str) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    first = said(sys.executable, "-c", DEMO)
    assert re.search(r"largest error \d", first)
    again = said(sys.executable, "-c", DEMO)  # on the same database: it searches on
    ids = [re.findall(r"jobs show ([0-9a-f]{32}) --trials", shown) for shown in (first, again)]
    assert len({*ids[0], *ids[1]}) == 2
    (url,) = re.findall(r"export TUNER_DATABASE_URL=(\S+)", again)
    environment["TUNER_DATABASE_URL"] = url
    typed = re.findall(r"^  \S+tuner ((?:jobs|best) .*)$", again, re.MULTILINE)
    assert len(typed) == 2
    shown = [said(sys.executable, "-m", "tuner", *words.split()) for words in typed]
    assert "state     succeeded" in shown[0]
    assert "naive" in shown[1]
    assert "trials    2 of 2" in shown[0]

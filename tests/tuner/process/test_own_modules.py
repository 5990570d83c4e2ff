"""Processes that run our modules find them where this process did, even in a plain checkout."""

import os
import subprocess
import sys

from tests.acceptance.processes import ROOT
from tuner.process import own_modules

SAY = "from tuner.process import own_modules; print(own_modules.environment()['PYTHONPATH'])"


def test_what_was_found_in_the_working_folder_is_named() -> None:
    """Without site-packages: no installed convtune is found there."""
    alone = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.check_output(
        [sys.executable, "-S", "-c", SAY], cwd=ROOT, env=alone, text=True
    )
    assert said.split(os.pathsep)[0] == str(ROOT)


def test_the_working_folder_itself_is_not() -> None:
    assert "" not in own_modules.environment()["PYTHONPATH"].split(os.pathsep)


def test_what_is_named_is_found_from_anywhere() -> None:
    command = own_modules.command("tuner.worker", "--help")
    given = os.environ | own_modules.environment()
    assert "--once" in subprocess.check_output(command, cwd="/", env=given, text=True)

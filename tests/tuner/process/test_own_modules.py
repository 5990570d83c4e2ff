"""Processes that run our modules find them where this process did, even in a plain checkout."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.acceptance.processes import ROOT
from tuner.process import own_modules

SAY = "from tuner.process import own_modules; print(own_modules.environment()['PYTHONPATH'])"


def test_pythonpath_names_the_checkout_if_it_is_the_working_folder() -> None:
    """The process has no site-packages, so that it finds no installed convtune there."""
    alone = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.check_output(
        [sys.executable, "-S", "-c", SAY], cwd=ROOT, env=alone, text=True
    )
    places = said.strip().split(os.pathsep)
    assert places[0] == str(ROOT)
    assert "" not in places


def test_pythonpath_leaves_out_pythons_own_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A compiler may be a program in Python of another version. An entry of ``sys.path`` that is no
    text does no harm; Python ignores such entries."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), tmp_path / "no text"])
    places = own_modules.environment()["PYTHONPATH"].split(os.pathsep)
    assert str(tmp_path) in places
    assert not {str(Path(os.__file__).parent), sysconfig.get_path("purelib")} & {*places}


def test_own_command_runs_from_any_folder() -> None:
    command = own_modules.command("tuner.worker", "--help")
    given = os.environ | own_modules.environment()
    assert "--once" in subprocess.check_output(command, cwd="/", env=given, text=True)

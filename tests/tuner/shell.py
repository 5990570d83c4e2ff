"""Run the command ``tuner`` in the test's own process."""

import sys
from typing import Any

import pytest

from tuner.cli import app


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    """Run ``tuner ARGUMENTS``; return its exit code (0 if it succeeded), standard output, and
    standard error."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as exit_:
        patch.setattr(sys, "argv", ["tuner", *arguments])
        app.main()
    return exit_.value.code or 0, *capsys.readouterr()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run ``tuner ARGUMENTS``, which must succeed; return its standard output."""
    code, out, err = ran(capsys, *arguments)
    assert code == 0, err
    return out

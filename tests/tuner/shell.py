"""The command ``tuner``, run in this process."""

import sys
from typing import Any

import pytest

from tuner.cli import app


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    """Its exit code, 0 if it succeeded, and what it wrote to standard output and error."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as exit_:
        patch.setattr(sys, "argv", ["tuner", *arguments])
        app.main()
    return exit_.value.code or 0, *capsys.readouterr()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What it wrote to standard output; it must succeed."""
    code, out, err = ran(capsys, *arguments)
    assert code == 0, err
    return out

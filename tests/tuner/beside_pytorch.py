"""Code in a process forked from one that has imported PyTorch, which takes two seconds, and has run
nothing of it."""

import io
import sys
from contextlib import closing, redirect_stdout

from tuner.process.child import Child


def run(code: str, argument: object) -> str:
    """What it prints. Its PyTorch has one thread until it asks for more."""
    with closing(Child(importing=("numpy", "torch"))) as child:
        return child.call(printed, code, str(argument), timeout=60).strip()


def printed(code: str, argument: str) -> str:
    sys.argv = ["-c", argument]
    with redirect_stdout(io.StringIO()) as said:
        exec(code, {})  # noqa: S102
    return said.getvalue()

"""Run code in a process that is forked from one that has imported PyTorch but run nothing of it, so
that the two seconds of the import are spent once."""

import io
import sys
from contextlib import closing, redirect_stdout

from tuner.process.child import Child


def run(code: str, argument: object) -> str:
    """Run the code with ``argument`` as sys.argv[1]; return what it prints, stripped. PyTorch has
    one thread there until the code asks for more."""
    with closing(Child(importing=("numpy", "torch"))) as child:
        return child.call(printed, code, str(argument), timeout=60).strip()


def printed(code: str, argument: str) -> str:
    sys.argv = ["-c", argument]
    with redirect_stdout(io.StringIO()) as said:
        exec(code, {})  # noqa: S102
    return said.getvalue()

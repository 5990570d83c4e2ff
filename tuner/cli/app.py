"""The entry point of the command line. Its commands are in :mod:`tuner.cli.commands`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from io import FileIO, TextIOWrapper
from typing import IO, Annotated, NoReturn

import typer

from tuner import __version__
from tuner.cli.common import examples
from tuner.cli.lazy_group import LazyGroup
from tuner.process.stopping import Stopped

GC_THRESHOLD = 20_000
"""The threshold of the garbage collector, in objects. Imported modules are never garbage, and with
Python's own threshold the search among them takes an eighth of a command's time."""

app = typer.Typer(
    name="tuner",
    cls=LazyGroup,
    help="Tune 1-D and depthwise 2-D convolutions for the device at hand.",
    epilog=examples(
        "tuner doctor",
        "tuner tune conv1d --M 16384 --N 32",
        "tuner best conv1d --M 16384 --N 32",
        "tuner tune depthwise_conv2d --help",
        "tuner --install-completion",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"convtune {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error is one line on standard error and a non-zero exit code.

    A fault of this program keeps its traceback.
    """
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # else Python would search all objects for garbage at its end
    _open_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # its encoding may lack a character such as µ
        sys.stdout.reconfigure(errors="replace")
    if "_TUNER_COMPLETE" in os.environ:  # else pydantic would search all packages for plugins
        os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"
    try:
        sys.exit(app(prog_name="tuner", standalone_mode=False))
    except typer.TyperException as error:
        from tuner.cli.error_messages import rewrite_message

        context = None if isinstance(error, typer.BadParameter) else getattr(error, "ctx", None)
        hint = f"; see {context.command_path} --help" if context else ""
        rewrite_message(error)
        message = error.format_message().rstrip(".")  # empty if the help was shown instead
        _refuse(message and message + hint, error.exit_code)
    except typer.Abort:  # the user answered no, or there was no input to answer a question
        _refuse(
            "nothing was changed, because the question was not answered with yes; "
            "--yes answers it in advance"
        )
    except Stopped as stopped:
        _refuse(str(stopped) or "stopped", 130)
    except Exception as error:
        from tuner.cli.error_messages import error_message

        line = error_message(error)
        if line is None:
            raise
        _refuse(line)


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed, onto the null device.

    Otherwise the next file that is opened would get the number of such a stream, and with it the
    output of child processes and libraries. Writing to standard output still fails, because the
    answer would otherwise be lost without a word.
    """
    for name, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, name) is None:
            if name == "stdout":  # unbuffered, so that a write fails at once, not at the exit
                unwritable = os.open(os.devnull, os.O_RDONLY)
                stream: IO[str] = TextIOWrapper(FileIO(unwritable, mode), write_through=True)
            else:
                stream = open(os.devnull, mode)  # noqa: PTH123, SIM115  # it stays open
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _refuse(message: str, code: int = 1) -> NoReturn:
    if message:
        print("tuner:", " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


def worker_main() -> None:
    """Run ``tuner worker`` for ``python -m tuner.worker``, which takes the same options."""
    sys.argv.insert(1, "worker")
    main()


if __name__ == "__main__":
    main()

"""The command line. Its commands are in :mod:`tuner.commands`."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from db.errors import StorageError
from templates.errors import TemplateError
from tuner.commands import (
    best,
    db,
    doctor,
    installation,
    jobs,
    keys,
    ladder,
    records,
    rpc_server,
    signers,
    trust,
    tune,
)
from tuner.errors import TunerError
from tuner.shape_options import examples
from tuner.stopping import Stopped


class _Ordered(TyperGroup):
    """From what is used first to what is used rarely; typer would list the groups last."""

    order = (
        "tune",
        "best",
        "jobs",
        "ladder",
        "export",
        "import",
        "serve",
        "worker",
        "rpc-server",
        "keys",
        "signers",
        "trust",
        "db",
        "doctor",
    )

    def list_commands(self, ctx: Any) -> list[str]:
        rank = {name: at for at, name in enumerate(self.order)}
        return sorted(super().list_commands(ctx), key=lambda name: rank.get(name, len(rank)))


app = typer.Typer(
    name="tuner",
    cls=_Ordered,
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
)
for each in (
    tune,
    best,
    jobs,
    ladder,
    records,
    installation,
    rpc_server,
    keys,
    signers,
    trust,
    db,
    doctor,
):
    each.add_to(app)


def main() -> None:
    """Run the command line; an error is one line on standard error and a non-zero exit."""
    try:
        sys.exit(app(prog_name="tuner", standalone_mode=False))
    except typer.TyperException as error:
        context = None if isinstance(error, typer.BadParameter) else getattr(error, "ctx", None)
        hint = f"; see {context.command_path} --help" if context else ""
        message = error.format_message().rstrip(".")  # none where the help was shown instead
        _refuse(message and message + hint, error.exit_code)
    except (TunerError, StorageError, TemplateError) as error:
        _refuse(str(error))
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        _refuse(f"setting TUNER_{name}: {first['msg']}")
    except Stopped:
        _refuse("stopped; the same command goes on from the trials that are stored", 130)


def _refuse(message: str, code: int = 1) -> NoReturn:
    if message:
        print("tuner:", " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


def worker_main() -> None:
    """``python -m tuner.worker``: the worker's options without the command's name."""
    sys.argv.insert(1, "worker")
    main()


if __name__ == "__main__":
    main()

"""The list of commands, each of which is imported only when it is used.

Half of the commands import TVM, the others the database's packages. Shell completion and help need
neither and do not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "tune": ("tune", "Tune a shape here and now, without a service."),
    "best": ("best", "Show the best that was found for a shape."),
    "jobs": ("jobs", "List, look at, wait for and cancel jobs."),
    "model": ("model", "Tune a model's layers as one order."),
    "ladder": ("ladder", "Climb the seed documents' steps, from naive to the tuned best."),
    "export": (
        "records",
        "Write a log of what was measured, or the bests' kernels as a Python package.",
    ),
    "import": ("records", "Have a log's configurations measured here."),
    "serve": ("serve", "Serve the HTTP API and its pages (the same as: python -m api)."),
    "worker": ("worker", "Take jobs from the database and run them."),
    "rpc-server": ("rpc_server", "Let workers measure on this machine's device."),
    "keys": ("keys", "Make, list and revoke API keys."),
    "signers": ("signers", "List and withdraw the keys that sign libraries."),
    "trust": ("trust", "Show the signing keys of a service, and pin them."),
    "db": ("db", "Copy, restore, prune and check the database."),
    "doctor": ("doctor", "Say what this machine has and what is missing."),
}
"""For each command its module in ``commands``, whose ``add_to`` adds it, and its line in the help.
The commands that users need first come first."""


class LazyGroup(TyperGroup):
    """The group ``tuner``: it lists COMMANDS and loads a command when it is called."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, (_, line) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=line))

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name and the loaded command, in place of its entry in the list."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None:
            command = load(name)
            _prepare(command, ctx)
        return name, command, rest


def load(name: str) -> Any:
    """Import a command's module and return the command."""
    app = typer.Typer()
    app.callback()(lambda: None)  # makes a group, even if the module adds one command only
    import_module(f"tuner.cli.commands.{COMMANDS[name][0]}").add_to(app)
    return typer.main.get_group(app).commands[name]


class _AsTyped:
    """A stand-in for the conversion of words to values.

    Shell completion needs no values, and the real conversion takes a fifth of a second to import.
    """

    @staticmethod
    def coerce(value: Any, **_: Any) -> Any:
        return value


def _prepare(command: Any, ctx: Any) -> None:
    """Adjust the parameters of a command and of its subcommands for help and completion."""
    for param in _plain_flags(command.get_params(ctx)):
        if ctx.resilient_parsing:
            param.get_runtime_param = _AsTyped
    for each in getattr(command, "commands", {}).values():
        _prepare(each, ctx)


def _plain_flags(params: list[Any]) -> list[Any]:
    """Return the parameters; options without a value get no metavar and a bool as default.

    Otherwise Typer's help would show ``<bool>`` for such options. Those of Typer itself default to
    None. Only pydantic could make that a bool, and would take a third of a completion's time.
    """
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
            param.default = bool(param.default)
    return params

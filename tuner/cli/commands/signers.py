"""``tuner signers``: the keys that the workers of a database sign with."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.common import JsonOption, database, examples, print_json, say, show


def list_signers(as_json: JsonOption = False) -> None:
    """The keys: fingerprint, 64 digits, the host that registered it first, since when."""
    from db.results import signers

    with database() as engine:
        found = signers.list_signers(engine)
    if as_json:
        print_json([vars(signer) | {"fingerprint": signer.fingerprint} for signer in found])
        return
    if not found:
        say("there are no keys to sign with")
    for signer in found:
        line = f"{signer.fingerprint}  {signer.public_key}  {signer.host}"
        line += f", {signer.created_at:%Y-%m-%d}"
        show(line)


def withdraw(
    key: Annotated[str, typer.Argument(metavar="FINGERPRINT|KEY", help="as `list` says")],
) -> None:
    """Take a key off the list, as one that was stolen. What it signed is served no more, and new
    clients are not told of it; those that have pinned it run `tuner trust` again."""
    from db.results import signers

    with database() as engine:
        gone = signers.withdraw(engine, key)
    show(f"withdrew {gone.fingerprint} of {gone.host}; tune again, with --retune, what it signed")


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="List and withdraw keys to sign with.", no_args_is_help=True)
    shown = examples("tuner signers list", "tuner signers list --json")
    group.command("list", epilog=shown)(list_signers)
    group.command(epilog=examples("tuner signers withdraw SHA256:…"))(withdraw)
    app.add_typer(group, name="signers")

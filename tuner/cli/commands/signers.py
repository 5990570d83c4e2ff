"""``tuner signers``: list and withdraw the keys with which the workers of a database sign."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.common import JsonOption, database, examples, print_json, say, show


def list_signers(as_json: JsonOption = False) -> None:
    """List the signing keys: fingerprint, public key, host that registered it first, date."""
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
    key: Annotated[
        str, typer.Argument(metavar="FINGERPRINT|KEY", help="as `tuner signers list` shows it")
    ],
) -> None:
    """Withdraw a signing key, for example one that was stolen.

    What it signed is no longer served, and new clients do not learn of it. Clients that have pinned
    it must run `tuner trust` again.
    """
    from db.results import signers

    with database() as engine:
        gone = signers.withdraw(engine, key)
    show(
        f"withdrew {gone.fingerprint} of {gone.host}; tune the shapes whose libraries it signed "
        "again, with --retune"
    )


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="List and withdraw the keys that sign libraries.", no_args_is_help=True
    )
    shown = examples("tuner signers list", "tuner signers list --json")
    group.command("list", epilog=shown)(list_signers)
    group.command(epilog=examples("tuner signers withdraw SHA256:…"))(withdraw)
    app.add_typer(group, name="signers")

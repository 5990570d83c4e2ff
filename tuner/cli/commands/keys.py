"""``tuner keys``: make, list and revoke the API keys of the service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from db.sql.choices import KeyScope
from tuner.cli.common import JsonOption, console, database, examples, print_json, say
from tuner.errors import UnusableFile

if TYPE_CHECKING:
    from db.access.keys import Key

MAX_DAYS = 36_500


def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="the key's name, for listing and revoking it")
    ],
    scope: Annotated[
        KeyScope,
        typer.Option(
            help="read: look and download; submit: order and cancel, too; admin: as submit, "
            "without limits"
        ),
    ],
    days: Annotated[
        float | None,
        typer.Option(min=0.001, max=MAX_DAYS, help="the key expires after this many days"),
    ] = None,
) -> None:
    """Make an API key and print it.

    It can't be shown again, because only its hash is stored.
    """
    from db.access import keys

    with database() as engine:
        key, secret = keys.create(engine, name, scope, days)
        try:
            print(secret, flush=True)
        except OSError as error:
            keys.revoke(engine, str(key.id))
            raise UnusableFile(
                "standard output",
                f"{error.strerror}; the key {name}, which could not be printed, is revoked again",
            ) from error
    print(
        f"key {key.id}, {key.name}, scope {key.scope}: keep it, it can't be shown again",
        file=sys.stderr,
    )


def list_keys(as_json: JsonOption = False) -> None:
    """List the API keys: id, scope, state, name, when each was made and when it expires."""
    from db.access import keys

    with database() as engine:
        found = keys.list_keys(engine)
    if as_json:
        print_json([_json(key) for key in found])
        return
    if not found:
        say("there are no keys")
    for key in found:
        made = f"made {key.created_at:%Y-%m-%d}"
        ends = "" if key.expires_at is None else f", expires {key.expires_at:%Y-%m-%d %H:%M} UTC"
        line = f"{key.id:5}  {key.scope:6}  {key.state:7}  {key.name:20}  {made}{ends}"
        console().print(line, highlight=False, soft_wrap=True)


def revoke(
    key: Annotated[
        str, typer.Argument(metavar="NAME|ID", help="its name or id, as `tuner keys list` shows it")
    ],
) -> None:
    """Revoke an API key.

    A running service refuses it within a second.
    """
    from db.access import keys

    with database() as engine:
        revoked, left = keys.revoke(engine, key)
    console().print(f"revoked {revoked.name}", highlight=False, soft_wrap=True)
    if left == 0:
        print(
            "no key is left: the service now answers anyone on loopback, and nobody else",
            file=sys.stderr,
        )


def _json(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scope": key.scope,
        "state": key.state,
        "created_at": key.created_at.isoformat(),
        "expires_at": key.expires_at and key.expires_at.isoformat(),
        "revoked_at": key.revoked_at and key.revoked_at.isoformat(),
    }


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
    group.command(
        epilog=examples(
            "tuner keys create ci --scope submit", "tuner keys create guest --scope read --days 7"
        )
    )(create)
    group.command("list", epilog=examples("tuner keys list", "tuner keys list --json"))(list_keys)
    group.command(epilog=examples("tuner keys revoke ci", "tuner keys revoke 3"))(revoke)
    app.add_typer(group, name="keys")

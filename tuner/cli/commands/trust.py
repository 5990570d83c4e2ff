"""``tuner trust``: show and pin the keys whose libraries are loaded from a service."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.common import console, examples, show


def trust(
    url: Annotated[str, typer.Argument(metavar="URL", help="address of the service")],
    yes: Annotated[bool, typer.Option("--yes", help="accept the keys without a question")] = False,
) -> None:
    """Show the signing keys of a service, and pin them in place of those that were pinned for it.

    Compare the fingerprints with those that its workers log when they start.
    """
    from tuner.client.client import Client
    from tuner.errors import UntrustedSigner
    from tuner.library.pins import Pins

    with Client(url) as client:
        url, served = client.url, client.signers()
    pins = Pins()
    pinned = pins.of(url) or frozenset()
    for signer in served:
        state = "pinned" if signer.public_key in pinned else "new"
        _show(state, signer.public_key, f"{signer.host}, {signer.created_at:%Y-%m-%d}")
    gone = sorted(pinned - {signer.public_key for signer in served})
    for key in gone:
        _show("gone", key, "pinned, and not served any more")
    if not served:
        raise UntrustedSigner(f"{url} has no keys: none of its workers has signed anything yet")
    if not gone and all(signer.public_key in pinned for signer in served):
        return
    if not yes:
        typer.confirm(
            f"Load libraries signed by any of the {len(served)} keys that {url} serves?", abort=True
        )
    pins.replace(url, [signer.public_key for signer in served])
    console().print(f"pinned in {pins.path}", highlight=False, soft_wrap=True)


def _show(state: str, key: str, whose: str) -> None:
    """Print one key with its fingerprint; ``state`` is pinned, new or gone."""
    from db.results.signed import fingerprint

    show(f"{state:7} {fingerprint(key)}  {key}  {whose}")


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples("tuner trust http://gpu-host:8000", "tuner trust URL --yes"),
    )(trust)

"""``tuner db``: back up, restore, prune and check the database."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.common import JsonOption, console, database, examples, print_json

MAX_DAYS = 36_500

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="file of the backup")]


def backup(
    file: FileArgument,
    force: Annotated[bool, typer.Option("--force", help="replace FILE if it exists")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy the database while the service and workers go on.

    FILE appears when the copy is complete and has been read again. For PostgreSQL, say which
    command makes a copy.
    """
    from db.upkeep import backup as copies
    from tuner.settings import Settings

    made = copies.back_up(Settings().database_url, file, force=force)
    if as_json:
        print_json({"file": str(made.file), "bytes": made.size, "schema": made.revision})
        return
    _say(f"wrote {made.file}: {_megabytes(made.size)}, schema {made.revision}")


def restore(
    file: FileArgument,
    force: Annotated[
        bool,
        typer.Option("--force", help="restore even if workers hold jobs or the database is open"),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the database by a copy.

    The copy is checked and its tables are brought to this version before it takes the database's
    place. The replaced database is kept beside it.
    """
    from db.upkeep import backup as copies
    from tuner.settings import Settings

    done = copies.restore(Settings().database_url, file, force=force)
    if as_json:
        aside = None if done.aside is None else str(done.aside)
        print_json({"database": str(done.file), "aside": aside, "schema": done.revision})
        return
    _say(f"restored {done.file} from {file}, whose schema was {done.revision}")
    if done.aside is not None:
        _say(f"the replaced database is kept as {done.aside}")


def prune(
    older_than: Annotated[
        float,
        typer.Option(
            min=0, max=MAX_DAYS, metavar="DAYS", help="delete entries older than this many days"
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only say what would be deleted")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete old trials, lists of configurations and artifacts.

    Each best is kept, with its job, its trial and its artifacts, and so are the last jobs, from
    which new searches learn.
    """
    from db.upkeep.prune import prune as delete_old
    from db.upkeep.space import reclaim

    with database() as engine:
        gone = delete_old(engine, older_than, dry_run=dry_run)
        space = None if dry_run else reclaim(engine)
    if as_json:
        told = asdict(gone) | {"dry_run": dry_run}
        print_json(told | {"space": None if space is None else asdict(space)})
        return
    _say("would be deleted:" if dry_run else "deleted:")
    _say(f"  trials         {gone.trials}")
    _say(f"  of jobs        {gone.jobs}")
    _say(f"  list entries   {gone.configs}")
    _say(f"  artifacts      {gone.artifacts} ({_megabytes(gone.artifact_bytes)})")
    if space is not None:
        how = {
            "vacuum": "VACUUM was run",
            "reused": "no VACUUM, because workers hold jobs; new data will reuse the freed space",
        }
        _say(f"{how[space.how]}; the database has {_megabytes(space.bytes)}")


def check(as_json: JsonOption = False) -> None:
    """Read the whole database and say what is wrong with it.

    The exit code is 1 if anything is wrong. Nothing is changed.
    """
    from db.upkeep.check import check_read_only
    from db.upkeep.sqlite_file import require_database
    from tuner.settings import Settings

    url = Settings().database_url
    require_database(url)
    found = check_read_only(url)
    if as_json:
        print_json({"wrong": found.wrong, "notes": found.notes})
    else:
        for line in found.wrong:
            _say(f"wrong: {line}")
        for line in found.notes:
            _say(f"note: {line}")
        if not found.wrong:
            _say("nothing is wrong")
    if found.wrong:
        raise typer.Exit(1)


def _say(line: str) -> None:
    console().print(line, highlight=False, soft_wrap=True, markup=False)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Copy, restore, prune and check the database.", no_args_is_help=True)
    group.command(epilog=examples("tuner db backup convtune-backup.db"))(backup)
    group.command(epilog=examples("tuner db restore convtune-backup.db"))(restore)
    group.command(
        epilog=examples(
            "tuner db prune --older-than 90 --dry-run", "tuner db prune --older-than 90"
        )
    )(prune)
    group.command(epilog=examples("tuner db check", "tuner db check --json"))(check)
    app.add_typer(group, name="db")

"""Completion and help must be quick: they import no slow package that the answer does not need."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from db import queue
from db.contract.order import JobOrder
from db.sql.engine import migrate, open_engine
from templates.conv1d.workload import Conv1dWorkload
from tests import databases
from tests.own_postgres import private_server
from tuner import __version__
from tuner.cli import app as cli
from tuner.cli.lazy_group import COMMANDS, load

ROOT = Path(cli.__file__).parents[2]
WORK = Conv1dWorkload(M=100, N=7)
SLOW = {"numpy", "sqlalchemy", "alembic", "tvm", "tvm_ffi", "pydantic_settings", "psycopg"}
STRATEGIES = ["xgb", "evolutionary", "random", "grid", "predicted", "metaschedule"]


def completed(
    folder: Path, words: str, url: str = "sqlite:///convtune.db"
) -> tuple[list[str], set[str]]:
    """Complete ``words`` as bash does at Tab; return the offers, and the packages that the command
    imported for them."""
    environment = {
        "_TUNER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "TUNER_DATABASE_URL": url,
    }
    return ran(folder, environment)


def ran(folder: Path, environment: dict[str, str], *words: str) -> tuple[list[str], set[str]]:
    """Run ``tuner WORDS`` in a new process; return the words that it prints and the packages that
    it imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tuner", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    imported = re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE)
    return done.stdout.split(), {name.partition(".")[0] for name in imported}


@pytest.mark.parametrize(
    "words", ["tuner jo", "tuner jobs w", "tuner jobs show ", "tuner jobs show --t"]
)
def test_completion_of_a_command_does_not_import_pydantic(tmp_path: Path, words: str) -> None:
    assert "pydantic" not in completed(tmp_path, words)[1]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[str]]:
    """Make a database in the folder with two jobs, of which the second is cancelled; yield their
    ids."""
    engine = databases.opened(tmp_path / "convtune.db")
    yield two_jobs(engine)
    engine.dispose()


def two_jobs(engine: Any) -> list[str]:
    migrate(engine)
    ids = []
    for trials in (3, 4):
        order = JobOrder.of(WORK, target="cpu", trials=trials, on_existing="retune")
        ids.append(queue.submit(engine, order)[0].id)
    queue.cancel(engine, ids[1])
    return ids


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("tuner jo", ["jobs"]),
        ("tuner tune conv", ["conv1d"]),
        ("tuner tune conv1d --mode ", ["full", "same", "valid", "causal"]),
        ("tuner tune conv1d --search ", STRATEGIES),
        ("tuner tune conv1d --search ev", ["evolutionary"]),
        ("tuner jobs list --operator d", ["depthwise_conv2d"]),
        ("tuner jobs list --state f", ["failed"]),
        ("tuner export --format k", ["kerneltuner"]),
        ("tuner keys create me --scope s", ["submit"]),
        ("tuner worker --target cu", ["cuda"]),
        ("tuner jobs show ", []),
    ],
)
def test_completion_offers_words_without_slow_imports(
    tmp_path: Path, words: str, offers: list[str]
) -> None:
    offered, imported = completed(tmp_path, words)
    assert offered == offers
    assert imported & SLOW == set()
    assert list(tmp_path.iterdir()) == []  # completion makes no database


def test_completion_offers_jobs(tmp_path: Path, jobs: list[str]) -> None:
    offered, imported = completed(tmp_path, "tuner jobs show ")
    assert offered == list(reversed(jobs))
    assert imported & SLOW == set()
    assert completed(tmp_path, f"tuner jobs show {jobs[0][:9]}")[0] == [jobs[0]]
    assert completed(tmp_path, "tuner jobs cancel ")[0] == [jobs[0]]
    assert completed(tmp_path, "tuner jobs wait ")[0] == [jobs[0]]
    assert completed(tmp_path, "tuner jobs show %")[0] == []


def test_completion_offers_jobs_of_postgresql(tmp_path: Path) -> None:
    with private_server() as server:
        url = server.get_uri()
        engine = open_engine(url)
        ids = two_jobs(engine)
        engine.dispose()
        for scheme in ("postgresql", "postgresql+psycopg"):
            named = f"{scheme}://{url.partition('://')[2]}"
            assert completed(tmp_path, "tuner jobs show ", named)[0] == list(reversed(ids))


@pytest.mark.parametrize("asked", ["--help", "-h", "--version"])
def test_help_and_version_import_no_slow_package(tmp_path: Path, asked: str) -> None:
    said, imported = ran(tmp_path, {}, asked)
    assert imported & (SLOW | {"pydantic"}) == set()
    assert said == ["convtune", __version__] if asked == "--version" else "rpc-server" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_line_of_a_command_in_the_help_is_the_commands_own(name: str) -> None:
    line = COMMANDS[name][1].removesuffix(".")
    assert " ".join(load(name).help.split()).startswith(line)


def test_help_shows_no_type_for_options_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    def helps(words: list[str], command: Any) -> None:
        with pytest.raises(SystemExit), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["tuner", *words, "-h"])
            cli.main()
        said = capsys.readouterr().out
        assert "--help" in said and "-h" in said
        assert "<bool>" not in said
        for name, each in getattr(command, "commands", {}).items():
            helps([*words, name], load(name) if not words else each)

    helps([], typer.main.get_command(cli.app))

"""Run the fenced blocks of Markdown pages, and the service that they speak to.

The words after a block's language, which a rendered page does not show, say how to run it:
``service`` keeps its commands running until the page ends, ``file=NAME`` writes it to that file,
the words of ``REASONS`` name something that may be missing here, and ``torch`` needs PyTorch.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.no_tls import NO_TLS
from tests.ports import free_port
from tuner.client.client import Client
from tuner.device import cuda_facts

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/how-to").glob("*.md"))
FENCE = re.compile(r"^```(\w+)(?: +([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TRIALS = re.compile(r"(--trials |trials=|\"trials\": ?)\d+")
BUDGET = re.compile(r"(budget_seconds=)\d+")
SECONDS = 90.0

REASONS: dict[str, Callable[[], str | None]] = {
    "gpu": lambda: cuda_facts.missing() and f"no GPU: {cuda_facts.missing()}",
    "installs": lambda: "it installs packages",
    "elsewhere": lambda: "it is for another host",
    "long": lambda: "the suite runs it anyway",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: the page's name, the line it begins on, its language, the words after it, and
    its text."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def missing(self) -> str | None:
        """Return the reason why it can't be run here, or None."""
        reasons = (REASONS[word]() for word in self.words if word in REASONS)
        return next((reason for reason in reasons if reason), None)

    def __str__(self) -> str:
        return f"{self.page}-{self.line}"


def blocks(pages: Sequence[Path] = PAGES) -> list[Block]:
    """Return all fenced blocks of the pages that name a language, in order."""
    return [
        Block(
            page=path.stem,
            line=text.count("\n", 0, found.start()) + 1,
            language=found[1],
            words=tuple((found[2] or "").split()),
            text=found[3],
        )
        for path in pages
        for text in [path.read_text()]
        for found in FENCE.finditer(text)
    ]


class Room:
    """The place where pages are run: a folder with its own database, port and environment.

    ``names`` are the variables that a page's Python blocks have set. ``replaced`` maps texts of the
    pages, such as an address, to their replacements here.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.installed = folder / "installed"
        self.port = free_port()
        self.names: dict[str, dict[str, Any]] = {}
        self.replaced: dict[str, str] = {"localhost:8000": f"localhost:{self.port}"}
        commands = folder / ".commands"
        commands.mkdir()
        for name, module in {"tuner": "tuner.cli.app", "python": ""}.items():
            command = f"{sys.executable} -m {module}" if module else sys.executable
            (commands / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (commands / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{folder}:{self.installed}:{ROOT}",
            # a page installs packages into its own folder, built with the packages that are here
            "PIP_TARGET": str(self.installed),
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # in pip, 0 stands for no isolation
            "TMPDIR": str(folder),
            "TUNER_DATABASE_URL": f"sqlite:///{folder / 'convtune.db'}",
            "TUNER_PORT": str(self.port),
            "TUNER_BUILD_WORKERS": "1",
            "TUNER_POLL_SECONDS": "0.1",
            "XDG_CACHE_HOME": str(folder / "cache"),
            **(environment or {}),
        }
        self.environment["PATH"] = f"{commands}:{self.environment['PATH']}"
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, block: Block) -> None:
        """Run a block, with few trials and a small budget.

        Raise AssertionError with its output if a shell block fails.
        """
        text = BUDGET.sub(r"\g<1>0.1", TRIALS.sub(r"\g<1>3", block.text))
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        named = [word.removeprefix("file=") for word in block.words if word.startswith("file=")]
        if named:
            path = self.folder / named[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif block.language == "sh":
            self.shell(text)
        elif block.language == "python":
            where = f"{block.page}.md:{block.line}"
            with warnings.catch_warnings():
                if "torch" in block.words:  # PyTorch itself uses functions that it deprecates
                    warnings.filterwarnings("ignore", module="torch")
                exec(compile(text, where, "exec"), self.names.setdefault(block.page, {}))  # noqa: S102
        else:
            assert block.language == "diff", block
            self.change(text)

    def shell(self, text: str) -> None:
        """Run a text in bash, which stops at the first error; raise AssertionError if it fails."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"

    def change(self, text: str) -> None:
        """Apply a diff of one file without line numbers, whose parts are separated by ``...``.

        Raise AssertionError unless the old lines of each part are in the file exactly once.
        """
        head, *lines = text.splitlines()
        path = self.folder / head.removeprefix("+++ ")
        content = path.read_text()
        for part in "\n".join(lines).split("\n...\n"):
            changed = part.splitlines()
            old = "\n".join(line[1:] for line in changed if line[0] != "+")
            assert content.count(old) == 1, f"not once in {path.name}:\n{old}"
            content = content.replace(
                old, "\n".join(line[1:] for line in changed if line[0] != "-")
            )
        path.write_text(content)

    def start(self, block: Block) -> None:
        """Start commands that keep running, and wait until the service answers and has a worker.

        Raise AssertionError with their log if one of them ends, or after ``SECONDS``.
        """
        text = block.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        with (self.folder / "service.log").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    ["bash", "-euo", "pipefail", "-c", f"{text}\nwait -n"],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + SECONDS
        while not self._at_work():
            log_text = (self.folder / "service.log").read_text()
            assert self._started[-1].poll() is None, log_text
            assert time.monotonic() < deadline, log_text
            time.sleep(0.1)

    def _at_work(self) -> bool:
        try:
            workers = httpx2.get(f"http://127.0.0.1:{self.port}/workers", timeout=5, verify=NO_TLS)
        except httpx2.TransportError:
            return False
        return bool(workers.is_success and workers.json()["items"])

    def close(self) -> None:
        """Close the pages' clients, end the commands that were started, and remove the folder."""
        for bound in self.names.values():
            for value in bound.values():
                if isinstance(value, Client):
                    value.close()
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._started:
            process.wait(SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

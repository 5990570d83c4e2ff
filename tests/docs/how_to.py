"""The pages of docs/how-to as something to run: fenced blocks, and the service they speak to.

What follows a block's language says how it is run, and no reader sees it: ``service`` starts what
stays until the page ends, ``file=NAME`` is written there, the words of REASONS need something that
may be missing, and ``torch`` needs PyTorch.
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
    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def missing(self) -> str | None:
        """Why it can't be run here."""
        reasons = (REASONS[word]() for word in self.words if word in REASONS)
        return next((reason for reason in reasons if reason), None)

    def __str__(self) -> str:
        return f"{self.page}-{self.line}"


def blocks(pages: Sequence[Path] = PAGES) -> list[Block]:
    """Those of the pages that are shell, Python or changes to a file."""
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
    """Where pages are run: a folder, what the shell has set, the names that Python has bound."""

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
            # what a page installs is for it alone, and made with what is here
            "PIP_TARGET": str(self.installed),
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # as pip has it: no isolation
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
        """AssertionError with what it said where it fails."""
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
                if "torch" in block.words:  # which warns of what it uses itself
                    warnings.filterwarnings("ignore", module="torch")
                exec(compile(text, where, "exec"), self.names.setdefault(block.page, {}))  # noqa: S102
        else:
            assert block.language == "diff", block
            self.change(text)

    def shell(self, text: str) -> None:
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
        """Make the changes of a diff with one file and no line numbers, ``...`` between them."""
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
        """Run commands that stay, until the service answers and a worker is there; AssertionError
        where one of them ends."""
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
            workers = httpx2.get(f"http://127.0.0.1:{self.port}/workers", timeout=5)
        except httpx2.TransportError:
            return False
        return bool(workers.is_success and workers.json()["items"])

    def close(self) -> None:
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

"""The checks of ``tuner doctor``: what this machine has for tuning, and what is missing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console

from db.sql.engine import open_engine
from db.sql.errors import StorageError
from db.sql.schema import check_schema
from db.sql.url import without_passwords
from tuner import config
from tuner.build.linker import linker, must_link
from tuner.client import cache
from tuner.device import cpu_facts, cuda_facts
from tuner.errors import NoLinker, UnusableFile
from tuner.measure.noise import measure_noise
from tuner.measure.versions import versions
from tuner.process.scratch import must_hold_libraries
from tuner.settings import Settings

OTHER_DATABASE_HINT = "go to another folder, or name another file in TUNER_DATABASE_URL"


@dataclass(frozen=True)
class Finding:
    """The result of one check. Tuning works if a thing is ``absent``, not if it is ``missing``."""

    what: str
    state: Literal["ok", "absent", "missing"]
    detail: str


def examine(settings: Settings) -> list[Finding]:
    """Run all checks and return their findings, without writing or creating anything."""
    looked_at = [_compiler(), _linker(), _cpu(), _gpu(), _quiet(), _peer()]
    return [*looked_at, _folders(settings), _database(settings)]


def show(findings: list[Finding], console: Console) -> None:
    """Print one line for each finding."""
    styles = {"ok": "green", "absent": "yellow", "missing": "red"}
    for finding in findings:
        state = f"[{styles[finding.state]}]{finding.state:8}[/]"
        console.print(f"{state} {finding.what:12} ", end="")
        console.print(finding.detail, markup=False, highlight=False, soft_wrap=True)


def _compiler() -> Finding:
    try:
        import tvm
    except Exception as error:
        return Finding("TVM", "missing", f"can't be imported: {error}")
    found = versions("cpu")
    return Finding("TVM", "ok", f"{tvm.__version__}, tvm-ffi {found['apache-tvm-ffi']}")


def _linker() -> Finding:
    try:
        must_link()
        return Finding("C++ compiler", "ok", linker())
    except (NoLinker, OSError) as error:
        return Finding("C++ compiler", "missing", str(error))


def _cpu() -> Finding:
    def describe() -> str:
        device = cpu_facts.device()
        return f"{device.name} ({device.arch}), {device.limits.units} threads"

    return _finding_of("CPU", describe)


def _gpu() -> Finding:
    missing = cuda_facts.missing()
    if missing:
        return Finding("GPU", "absent", missing)

    def describe() -> str:
        device = cuda_facts.device()
        return f"{device.name} ({device.arch}), driver {device.driver}"

    return _finding_of("GPU", describe)


def _quiet() -> Finding:
    """Check that no other program keeps the processors busy, which would falsify times."""
    seen = measure_noise()
    if seen["quiet"]:
        return Finding("quiet", "ok", "nothing else keeps the processors busy")
    return Finding("quiet", "absent", seen["reason"])


def _peer() -> Finding:
    try:
        import torch
    except ImportError:
        return Finding("PyTorch", "absent", "not installed; it would be measured beside the best")
    return Finding("PyTorch", "ok", torch.__version__)


def _folders(settings: Settings) -> Finding:
    """Check that the folders of the key, downloads, temporary files and builds can be written, and
    that libraries can be loaded from the temporary folder."""
    try:
        folders = {
            "TUNER_SIGNING_KEY": settings.signing_key.parent,
            "XDG_CACHE_HOME": cache.default_folder(),
            "TMPDIR": Path(tempfile.gettempdir()),
        }
        if settings.build_cache is not None:
            folders["TUNER_BUILD_CACHE"] = settings.build_cache
        must_hold_libraries(folders["TMPDIR"])
    except (OSError, UnusableFile) as error:
        return Finding("folders", "missing", str(error))
    for variable, folder in folders.items():
        if not config.is_writable(folder):
            why = f"this user may not write {folder}; name another place in {variable}"
            return Finding("folders", "missing", why)
    return Finding("folders", "ok", ", ".join(map(str, folders.values())))


def _database(settings: Settings) -> Finding:
    url = settings.database_url
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and path.parent.is_dir() and not path.exists():
        if not config.is_writable(path):
            folder = path.absolute().parent
            why = f"{url} can't be made: this user may not write {folder}; {OTHER_DATABASE_HINT}"
            return Finding("database", "missing", why)
        return Finding("database", "absent", f"{url} will be made by the first command")
    try:
        engine = open_engine(url)
    except StorageError as error:
        return Finding("database", "missing", str(error))
    try:
        check_schema(engine)
    except StorageError as error:
        return Finding("database", "missing", str(error))
    finally:
        engine.dispose()
    return Finding("database", "ok", without_passwords(engine.url))


def _finding_of(what: str, describe: Callable[[], str]) -> Finding:
    """Return the finding that ``describe`` gives; ``missing`` if it raises."""
    try:
        return Finding(what, "ok", describe())
    except Exception as error:
        return Finding(what, "missing", f"{type(error).__name__}: {error}")

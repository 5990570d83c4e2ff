"""Libraries are downloaded from the service, checked against their SHA-256, cached and called."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meddling import Meddler
from service_process import ROOT, Service
from small_libraries import arrays, error, expected, workload

from tests.tuner.answering import running
from tuner.client.cache import Cache, default_folder
from tuner.client.client import Client
from tuner.errors import BrokenArtifact

SHAPE = {"M": 16384, "N": 32}
PLAIN_PROGRAM = Path(__file__).parents[1].joinpath("plain_program.txt").read_text()
HEAVY = ("tvm", "xgboost", "sqlalchemy", "fastapi", "starlette")


@pytest.mark.parametrize("name", ["full", "depthwise"])
def test_a_library_is_fetched_and_called(client: Client, name: str) -> None:
    work = workload(name)
    best = client.best(work.operator, work.model_dump())
    library = client.load(best)
    x, w = arrays(work)
    assert error(library(x, w), expected(name, x, w)) < 1e-5
    assert best.artifacts.library is not None
    assert library.path == client.cache.folder / f"{best.artifacts.library.sha256}.so"
    assert client.cache.folder.stat().st_mode & 0o77 == 0


def test_a_library_is_downloaded_once(service: Service, tmp_path: Path) -> None:
    with running(Meddler(service.url, bytes)) as proxy, Client(proxy.url, cache=tmp_path) as client:
        best = client.best("conv1d", SHAPE)
        client.load(best)
        client.load(best)
    fetched = [path for path in proxy.paths if path.startswith("/artifacts/")]
    assert len(fetched) == 3  # library, manifest, signature


def flipped(content: bytes) -> bytes:
    """Return the bytes with one bit of byte 9000 flipped."""
    return content[:9000] + bytes([content[9000] ^ 1]) + content[9001:]


@pytest.mark.parametrize(
    ("meddle", "says"),
    [
        (flipped, "bytes that hash to"),
        (lambda content: content[:-1], "bytes that hash to"),
        (lambda content: content + b"\0", "more than its"),
    ],
    ids=["flipped", "short", "long"],
)
def test_download_that_was_altered_is_refused(
    service: Service, tmp_path: Path, meddle: Any, says: str
) -> None:
    proxied = Meddler(service.url, meddle)
    with running(proxied) as proxy, Client(proxy.url, cache=tmp_path) as client:
        best = client.best("conv1d", SHAPE)
        with pytest.raises(BrokenArtifact, match=rf"\.so came with {says}"):
            client.load(best)
    assert list(tmp_path.glob("*.so")) == list(tmp_path.glob(".partial*")) == []
    with Client(service.url, cache=tmp_path) as honest:
        honest.load(best)


def test_corrupt_cached_library_is_downloaded_again(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    best = client.best("conv1d", SHAPE)
    path = client.load(best).path
    whole = path.read_bytes()
    # The file is replaced, not changed in place, as the loaded library is mapped from it.
    rotten = path.with_name("rotten")
    rotten.write_bytes(flipped(whole))
    rotten.replace(path)
    assert client.load(best).path == path
    assert "must hash to" in caplog.text
    assert path.read_bytes() == whole


@pytest.mark.parametrize("linked", [False, True])
def test_library_is_downloaded_again_if_a_folder_is_in_its_place(
    service: Service, tmp_path: Path, linked: bool
) -> None:
    with Client(service.url, cache=tmp_path / "cache") as client:
        best = client.best("conv1d", M=16384, N=32)
        path = client.load(best).path
        path.unlink()
        folder = tmp_path / "folder" if linked else path
        (folder / "inside").mkdir(parents=True)
        if linked:
            path.symlink_to(folder)
        assert client.load(best).path == path
        assert path.is_file()
        assert folder.is_dir() == linked


def test_interrupted_download_leaves_no_file_in_the_cache(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        Cache(tmp_path).keep("x", "0" * 64, 8, chunks())
    assert list(tmp_path.iterdir()) == []


def test_default_cache_folder_follows_xdg_cache_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert default_folder() == tmp_path / ".cache" / "convtune"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "convtune"


def run(code: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_client_needs_no_compiler_and_no_storage(service: Service, tmp_path: Path) -> None:
    code = f"""
import sys
import numpy as np
from tuner.client import Client
with Client({service.url!r}) as client:
    library = client.load(client.best("conv1d", M=16384, N=32))
y = library(np.ones(16384, np.float32), np.ones(32, np.float32))
print(y.max(), [name for name in {HEAVY} if name in sys.modules])
"""
    settings = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert run(code, tmp_path, **settings) == "32.0 []"


def test_the_plain_program_needs_neither_compiler_nor_project(
    service: Service, tmp_path: Path
) -> None:
    code = PLAIN_PROGRAM.replace("http://localhost:8000", service.url)
    assert service.url in code
    code += "\nimport sys\n"
    code += "print([m for m in ('tvm', 'tuner', 'templates', 'db', 'api') if m in sys.modules])"
    said, imported = run(code, tmp_path, PYTHONPATH="").splitlines()
    assert said.startswith("error: ")
    assert float(said.removeprefix("error: ")) < 1e-5 * np.sqrt(32)
    assert imported == "[]"


def test_the_plain_program_refuses_a_flipped_byte(service: Service, tmp_path: Path) -> None:
    with running(Meddler(service.url, flipped)) as proxy, pytest.raises(AssertionError) as raised:
        run(PLAIN_PROGRAM.replace("http://localhost:8000", proxy.url), tmp_path, PYTHONPATH="")
    assert "these are not the bytes" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_the_readme_shows_the_plain_program() -> None:
    assert PLAIN_PROGRAM.strip() in (ROOT / "README.md").read_text()

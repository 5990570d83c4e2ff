"""The build cache: a library is reused if program, target, compiler and options are equal."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from templates.conv1d.cpu.direct import CpuDirect
from templates.conv1d.workload import Conv1dWorkload
from tuner.build import build_cache
from tuner.build import compile as compiling
from tuner.build.builder import Builder
from tuner.build.compile import LINKED, BuildOrder, program_of
from tuner.device import cpu_facts

WORKLOAD = Conv1dWorkload(M=100, N=7)
OTHER = build_cache.Entry(b"another library", "its source")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "built"


@pytest.fixture(scope="module")
def builder(folder: Path) -> Iterator[Builder]:
    with Builder(1, cache=folder) as builder:
        yield builder


def ordered(library: Path) -> BuildOrder:
    device, template = cpu_facts.device(), CpuDirect()
    config = template.default(WORKLOAD, device.limits)
    return BuildOrder(WORKLOAD.key, program_of(template), config, device.target, library)


def test_equal_build_is_read_from_the_cache_and_any_other_is_compiled(
    builder: Builder, folder: Path, tmp_path: Path
) -> None:
    first = builder.submit(ordered(tmp_path / "first.so")).result()
    assert first.status == "ok"
    whole = build_cache.Entry(first.order.library.read_bytes(), first.source)
    assert whole.binary[:4] == b"\x7fELF"
    found = {entry.name: build_cache.read(folder, entry.name) for entry in folder.iterdir()}
    (name,) = [name for name, entry in found.items() if entry == whole]
    assert len(found) == 1 + len(LINKED["llvm"])

    # No build would make these bytes: if they come back, they came from the cache.
    build_cache.write(folder, name, OTHER)
    again = builder.submit(ordered(tmp_path / "again.so")).result()
    assert (again.order.library.read_bytes(), again.source) == (OTHER.binary, OTHER.source)
    assert (again.status, again.workspace) == (first.status, first.workspace)
    assert sorted(again.seconds or {}) == ["build", "schedule"]

    asked = ordered(tmp_path / "others.so")
    wider = Conv1dWorkload(M=101, N=7)
    older = {**asked.target, "mcpu": "x86-64-v2"}
    for other in (replace(asked, workload_key=wider.key), replace(asked, target=older)):
        built = builder.submit(other).result()
        assert built.status == "ok", built.error
        assert other.library.read_bytes() not in (whole.binary, OTHER.binary)
    assert len([*folder.iterdir()]) == 3 + len(LINKED["llvm"])


def test_sources_linked_into_every_library_are_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again, cache = (tmp_path / name for name in ("first", "again", "cache"))
    first.mkdir()
    again.mkdir()
    sources = LINKED["llvm"]
    compiled = [Path(path).read_bytes() for path in compiling._object_files(sources, first, cache)]
    monkeypatch.setattr(compiling.linker, "run", None)
    assert [
        Path(path).read_bytes() for path in compiling._object_files(sources, again, cache)
    ] == compiled
    monkeypatch.setattr(compiling, "identity", lambda: "another compiler")
    with pytest.raises(TypeError):
        compiling._object_files(sources, tmp_path, cache)


def test_library_with_a_truncated_cache_entry_is_built_again(
    builder: Builder, folder: Path, tmp_path: Path
) -> None:
    builder.submit(ordered(tmp_path / "first.so")).result()
    for entry in folder.iterdir():
        entry.write_bytes(entry.read_bytes()[:-1])
    built = builder.submit(ordered(tmp_path / "again.so")).result()
    assert built.status == "ok"
    assert built.order.library.read_bytes()[:4] == b"\x7fELF"


def test_build_succeeds_if_the_cache_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Builder(1, cache=tmp_path / "file" / "built") as builder:
        assert builder.submit(ordered(tmp_path / "first.so")).result().status == "ok"


def test_cache_entry_is_read_even_if_it_cannot_be_marked_as_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_cache.write(tmp_path, "library", OTHER)

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    assert build_cache.read(tmp_path, "library") == OTHER


def test_least_recently_used_cache_entries_are_removed_first(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "read", "old")):
        build_cache.write(tmp_path, name, build_cache.Entry(bytes(1000), "source"))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    assert build_cache.read(tmp_path, "read") is not None
    build_cache.make_room(tmp_path, 2500)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "read"}
    build_cache.make_room(tmp_path, 1500)
    assert {path.name for path in tmp_path.iterdir()} == {"read"}


def test_making_room_skips_entries_that_cannot_be_removed(tmp_path: Path) -> None:
    build_cache.write(tmp_path, "new", build_cache.Entry(bytes(1000), "source"))
    (tmp_path / "a folder").mkdir()
    os.utime(tmp_path / "a folder", (1e9, 1e9))
    build_cache.make_room(tmp_path, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"a folder"}


def test_cache_keys_differ_if_parts_are_split_differently() -> None:
    made = {
        build_cache.key(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""))
    }
    assert len(made) == 4

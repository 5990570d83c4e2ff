"""Builds that fail because the machine lacks something for a moment: no candidate is blamed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.measure.planted import PlantedBuild
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, Built, program_of
from tuner.build.linker import linker
from tuner.device.device import Device

REFUSE = "echo '{said}' >&2; exit 1"
REFUSE_THE_CANDIDATE = 'case "$*" in *right.so*) ' + REFUSE + ";; esac"

Build = Callable[[], Built]


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compiler of these builds, a script that calls this machine's. A test may change it."""
    script = tmp_path / "c++"
    script.write_text(f'#!/bin/sh\nexec {linker()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return script


@pytest.fixture
def build(compiler: Path, device: Device, tmp_path: Path) -> Iterator[Build]:
    """Yield a function that builds a correct program."""
    template = PlantedBuild()
    order = BuildOrder(
        Conv1dWorkload(M=100, N=7).key,
        program_of(template),
        template.config("right"),
        device.target,
        tmp_path / "right.so",
    )
    with Builder(workers=1) as builder:
        yield lambda: builder.submit(order).result()


def refuse(compiler: Path, how: str, said: str) -> None:
    works = compiler.read_text().splitlines()
    compiler.write_text("\n".join([works[0], how.format(said=said), works[1], ""]))


def test_compiler_that_is_briefly_missing_is_a_machine_error(
    compiler: Path, build: Build, tmp_path: Path
) -> None:
    """A compiler is missing while a distribution upgrades it."""
    compiler.rename(tmp_path / "away")
    built = build()
    assert built.status == "machine_error"
    assert built.error is not None
    assert built.error.startswith(f"NoLinker: CXX is '{compiler}', which is no program")
    (tmp_path / "away").rename(compiler)
    assert build().status == "ok"


@pytest.mark.parametrize("missed_by", ["the sources of each library", "the library"])
def test_missing_linker_is_a_machine_error(compiler: Path, build: Build, missed_by: str) -> None:
    said = "collect2: fatal error: cannot find ld"
    if missed_by == "the library":
        assert build().status == "ok"  # the sources are compiled now
    refuse(compiler, REFUSE, said)
    built = build()
    assert built.status == "machine_error"
    assert built.error is not None
    assert said in built.error


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("ld: cannot find -lc: Too many open files", "machine_error"),
        ("ld: relocation truncated to fit", "build_error"),
    ],
)
def test_linker_message_decides_the_status_if_other_links_work(
    compiler: Path, build: Build, said: str, status: str
) -> None:
    """If an empty library can be linked afterwards, the candidate is to blame. An exception is a
    lack of file descriptors: other programs may have given theirs back by then."""
    refuse(compiler, REFUSE_THE_CANDIDATE, said)
    built = build()
    assert built.status == status
    assert built.error is not None
    assert said in built.error

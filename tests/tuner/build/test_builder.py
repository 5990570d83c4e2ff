"""The builder compiles candidates to libraries in child processes. Builds may fail or hang."""

import itertools
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from templates.conv1d.cpu.direct import CpuDirect
from templates.conv1d.workload import Conv1dWorkload
from templates.template import Template
from tests.acceptance.processes import until
from tests.tuner.measure import remote
from tests.tuner.measure.planted import PlantedBuild
from tests.tuner.measure.remote import gone
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.build.linker import linker
from tuner.cli.doctor import examine
from tuner.device.device import Device
from tuner.errors import NoLinker
from tuner.settings import Settings

WORKLOAD = Conv1dWorkload(M=100, N=7)


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    with Builder(workers=2, timeout=60) as builder:
        yield builder


def order(device: Device, folder: Path, template: Template[Any], config: Any) -> BuildOrder:
    return BuildOrder(
        WORKLOAD.key, program_of(template), config, device.target, folder / "kernel.so"
    )


def planted(device: Device, folder: Path, behaviour: str) -> BuildOrder:
    template = PlantedBuild()
    return order(device, folder, template, template.config(behaviour))


def test_builder_compiles_a_configuration_to_a_library(
    builder: Builder, device: Device, tmp_path: Path
) -> None:
    template = CpuDirect()
    asked = order(device, tmp_path, template, template.default(WORKLOAD, device.limits))
    built = builder.submit(asked).result()
    assert (built.status, built.error, built.order) == ("ok", None, asked)
    content = asked.library.read_bytes()
    assert content[:4] == b"\x7fELF"
    assert b"libc.so" in content
    assert b"libstdc++" not in content
    assert built.source == ""
    assert "ret" in builder.with_source(built).source
    assert built.seconds is not None
    assert sorted(built.seconds) == ["build", "schedule"]
    assert all(seconds > 0 for seconds in built.seconds.values())
    unknown = replace(built, order=replace(asked, config={"template": "direct"}))
    with capture_logs() as logged:
        assert builder.with_source(unknown) == unknown
    assert [each["event"] for each in logged] == ["source_not_written"]


@pytest.mark.parametrize(
    ("behaviour", "came_of_it"),
    [
        ("unschedulable", ("schedule_error", "ValueError: planted: no such schedule")),
        ("uncompilable", ("build_error", "InternalError: not implemented")),
        ("build_crash", ("build_error", "the process died (signal SIGABRT)")),
    ],
)
def test_failed_build_returns_its_status_and_reason(
    builder: Builder, device: Device, tmp_path: Path, behaviour: str, came_of_it: tuple[str, str]
) -> None:
    asked = planted(device, tmp_path, behaviour)
    built = builder.submit(asked).result()
    assert built.order == asked
    assert (built.status, built.error) == came_of_it
    assert not asked.library.exists()


def test_a_configuration_that_is_not_in_the_space_is_a_schedule_error(
    builder: Builder, device: Device, tmp_path: Path
) -> None:
    template = CpuDirect()
    built = builder.submit(order(device, tmp_path, template, {"template": "direct"})).result()
    assert (built.status, built.error) == ("schedule_error", "KeyError: 'lanes'")


def test_template_module_that_cannot_be_imported_is_a_machine_error(
    builder: Builder, device: Device, tmp_path: Path
) -> None:
    """While convtune or TVM is upgraded, files are missing that are there a moment later."""
    asked = replace(planted(device, tmp_path, "right"), program="templates.gone:Direct")
    built = builder.submit(asked).result()
    assert (built.status, built.error) == (
        "machine_error",
        "ModuleNotFoundError: No module named 'templates.gone'",
    )


def test_hanging_build_is_killed_and_the_next_runs_in_a_new_process(
    device: Device, tmp_path: Path
) -> None:
    """The new process only returns its id here: on a busy machine a build could take longer than
    the timeout of 0.5 s."""
    with Builder(workers=1, timeout=0.5) as builder:
        pid = builder.call(remote.pid, timeout=60)
        built = builder.submit(planted(device, tmp_path, "build_hang")).result()
        assert (built.status, built.error) == ("build_timeout", "killed after 0.5 s")
        assert gone(pid)
        assert builder.call(remote.pid, timeout=60) != pid


def test_a_crash_harms_no_other_build(builder: Builder, device: Device, tmp_path: Path) -> None:
    behaviours = ["right", "build_crash", "right", "unschedulable", "right"]
    orders = []
    for place, behaviour in enumerate(behaviours):
        folder = tmp_path / str(place)
        folder.mkdir()
        orders.append(planted(device, folder, behaviour))
    built = [each.result() for each in [builder.submit(order) for order in orders]]
    assert [each.status for each in built] == ["ok", "build_error", "ok", "schedule_error", "ok"]
    assert [each.order for each in built] == orders


def test_builds_run_side_by_side(builder: Builder, tmp_path: Path) -> None:
    """Each of two calls waits for the file that the other writes, so both must run at once."""
    files = [tmp_path / "a", tmp_path / "b"]
    with ThreadPoolExecutor(2) as threads:
        met = threads.map(
            lambda mine, other: builder.call(remote.meet, mine, other, timeout=30),
            files,
            reversed(files),
        )
        assert list(met) == [True, True]


def test_closing_the_builder_kills_running_builds_and_cancels_waiting_ones(
    device: Device, tmp_path: Path
) -> None:
    builder = Builder(workers=1, timeout=60)
    waiting: list[Any] = []
    try:
        pid = builder.call(remote.pid, timeout=60)
        waiting = [builder.submit(planted(device, tmp_path, "build_hang")) for _ in range(3)]
        until(waiting[0].running)
        time.sleep(0.2)
    finally:
        start = time.monotonic()
        builder.close()
    assert time.monotonic() - start < 5
    assert gone(pid)
    assert [each.cancelled() for each in waiting] == [False, True, True]
    running = waiting[0].result(timeout=0)
    assert (running.status, running.error) == ("build_error", "the process died (signal SIGKILL)")


def test_leaving_a_builder_folder_removes_it_and_ends_its_builds(device: Device) -> None:
    """At the exception the first build has made its library, the second runs, and the third waits
    for a process. The second is killed, the third is cancelled, and the builder remains usable."""
    with Builder(workers=1, timeout=60) as builder:
        with pytest.raises(KeyError), builder.folder("convtune-test-") as folder:
            assert builder.submit(planted(device, folder, "right")).result().status == "ok"
            inside = folder / "inside"
            inside.mkdir()
            builds = [builder.submit(planted(device, inside, "build_hang")) for _ in range(2)]
            until(builds[0].running)
            raise KeyError
        assert not folder.exists()
        assert builds[0].result(timeout=0).error == "the process died (signal SIGKILL)"
        assert builds[1].cancelled()
        with builder.folder("convtune-test-") as folder:
            assert builder.submit(planted(device, folder, "right")).result().status == "ok"


def test_late_file_of_a_killed_linker_does_not_hide_the_error(tmp_path: Path) -> None:
    """A linker is killed with its build but may live and write for a moment longer. A failure to
    remove the folder because of such a file must not replace the error that ended the block."""
    over = threading.Event()

    def write(folder: Path) -> None:
        for number in itertools.count():
            if over.is_set():
                return
            with suppress(OSError):
                (folder / str(number)).touch()

    with Builder(workers=1, timeout=60) as builder:
        with pytest.raises(KeyError), builder.folder("convtune-test-") as folder:
            for number in range(500):
                (folder / f"before {number}").touch()
            thread = threading.Thread(target=write, args=(folder,))
            thread.start()
            raise KeyError
        over.set()
        thread.join()
    shutil.rmtree(folder, ignore_errors=True)


def test_leaving_a_builder_folder_does_not_end_builds_elsewhere(
    device: Device, tmp_path: Path
) -> None:
    with Builder(workers=1, timeout=60) as builder:
        with builder.folder("convtune-test-"):
            build = builder.submit(planted(device, tmp_path, "right"))
        assert build.result().status == "ok"


def test_missing_linker_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in ("/nowhere/c++", f"{linker()} -O2"):
        monkeypatch.setenv("CXX", named)
        with pytest.raises(NoLinker, match=rf"CXX is '{re.escape(named)}', .* without options"):
            Builder(workers=1)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoLinker, match="install g"):
        Builder(workers=1)


def test_linker_is_tried_successfully_if_tmpdir_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python passes over a TMPDIR that can't be written, as on a full disk; a compiler does not."""
    compiler = tmp_path / "g++"
    compiler.symlink_to(Path(linker()).resolve())
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TMPDIR", "/proc")
    monkeypatch.setattr(tempfile, "tempdir", None)
    Builder(workers=1).close()


def test_a_compiler_without_its_linker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container without binutils has g++ but no ld. Builder and doctor name the package."""
    (tmp_path / "g++").symlink_to(Path(linker()).resolve())
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLinker, match=r"can't link a library \(.*: install binutils"):
        Builder(workers=1)
    (found,) = [each for each in examine(Settings()) if each.what == "C++ compiler"]
    assert (found.state, "binutils" in found.detail) == ("missing", True)

"""Rules for the repository as a whole: sizes, imports, pins, markers, settings, error trees."""

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import grimp
import pytest
from pydantic_settings import BaseSettings

from api.settings import Settings as ApiSettings
from templates.conv1d.cpu.direct import CpuDirect
from templates.conv1d.workload import Conv1dWorkload
from tuner.build.compile import BuildOrder, program_of
from tuner.device import cpu_facts
from tuner.job.record import metaschedule_record
from tuner.process.child import Child
from tuner.settings import Settings

ROOT = Path(__file__).parents[1]
TOP = ("api", "db", "templates", "tuner")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PINNED = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
)


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", pattern], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).exists()]


def test_files_stay_small() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in tracked("*.py")}
    assert len(lengths) > 100
    assert [f"{path}: {length}" for path, length in lengths.items() if length > 400] == []
    assert median(lengths.values()) < 120


def test_no_folder_has_more_than_15_modules() -> None:
    rooms = Counter(path.parent for top in TOP for path in tracked(f"{top}/*.py"))
    assert len(rooms) > 20
    assert {str(room.relative_to(ROOT)): n for room, n in rooms.items() if n > 15} == {}


def test_files_that_are_no_modules_are_package_data() -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]
    installed = {
        path for room in patterns for each in patterns[room] for path in (ROOT / room).glob(each)
    }
    others = [path for room in TOP for path in tracked(room) if path.suffix != ".py"]
    assert [str(path) for path in others if path not in installed] == []


def test_imports_between_modules_have_no_cycle() -> None:
    graph = grimp.build_graph(*TOP, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sum(map(len, imports.values())) > 500
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_no_file_names_a_path_of_its_authors_machine() -> None:
    # in halves, so that this file does not contain them
    parts = ("/work", "/main"), ("/tm", "p/dev"), ("/ho", "me/"), ("index", "-url")
    foreign = re.compile("|".join("".join(halves) for halves in parts))
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()[:100]}"
        for path in tracked("*")
        if b"\0" not in path.read_bytes()
        for line in path.read_text().splitlines()
        if foreign.search(line)
    ]
    assert found == []


def test_every_dependency_is_pinned() -> None:
    optional = PROJECT["optional-dependencies"]
    required = [*PROJECT["dependencies"], *(each for group in optional.values() for each in group)]
    names = {re.split(r"[\[<>=~! ]", each)[0].lower() for each in required} - {"convtune"}
    assert names - {name.lower().replace("_", "-") for name in PINNED} == set()
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    loose = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[^ ;]+|#.*|", line)]
    assert loose == []


def test_file_that_needs_pytorch_has_the_torch_marker() -> None:
    """A file that skips itself without PyTorch must carry the marker ``torch``.

    If not, the environment without PyTorch skips its tests, and the environment with PyTorch, which
    runs only marked tests, does not choose them.
    """
    skipped = {
        path.name: text
        for path in tracked("tests/*.py")
        if re.search(r"importorskip\(\s*.torch", text := path.read_text())
    }
    assert len(skipped) > 3
    marked = re.compile(r"^pytestmark = [^\n]*(\n {4}[^\n]*)*pytest\.mark\.torch\b", re.MULTILINE)
    assert [name for name, text in skipped.items() if not marked.search(text)] == []


def test_pytest_m_torch_fails_if_pytorch_is_missing() -> None:
    if find_spec("torch"):
        pytest.skip("PyTorch is installed")
    asked = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "torch", "--collect-only", __file__],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == pytest.ExitCode.USAGE_ERROR
    assert "-m torch needs PyTorch" in asked.stderr


@pytest.mark.parametrize("name", ["apache-tvm", "apache-tvm-ffi"])
def test_installed_tvm_is_the_pinned_version(name: str) -> None:
    assert f"{name}=={PINNED[name]}" in PROJECT["dependencies"]
    assert version(name) == PINNED[name]


def test_tvm_module_can_be_serialised(tmp_path: Path) -> None:
    """This test guards the pin of apache-tvm-ffi: with 0.1.15 the process crashes here."""
    device = cpu_facts.device()
    template = CpuDirect()
    workload = Conv1dWorkload(M=100, N=7)
    config = template.default(workload, device.limits)
    library = tmp_path / "unused.so"
    build = BuildOrder(workload.key, program_of(template), config, device.target, library)
    child = Child()
    try:
        record = child.call(metaschedule_record, build, 2e-6, timeout=60)
    finally:
        child.close()
    digest, module = record["workload"]
    assert int(digest) > 0
    assert len(module) > 1000
    (trace, _), seconds, target, arguments = record["tuning_record"]
    assert len(trace) > 5
    assert seconds == [2e-6]
    assert target["kind"] == "llvm"
    assert len(arguments) == 3


@pytest.mark.parametrize("settings", [Settings, ApiSettings], ids=["tuner", "api"])
def test_every_setting_is_documented(settings: type[BaseSettings]) -> None:
    readme = (ROOT / "README.md").read_text()
    names = {f"TUNER_{name.upper()}" for name in settings.model_fields}
    assert {name for name in names if f"`{name}`" not in readme} == set()


def test_every_documented_setting_exists() -> None:
    known = {name.upper() for kind in (Settings, ApiSettings) for name in kind.model_fields}
    known |= {"API_KEY", "SIGNERS"}  # the client's, which reads no settings
    assert set(re.findall("TUNER_([A-Z_]+)", (ROOT / "README.md").read_text())) <= known


@pytest.mark.parametrize("room", ["tuner", "db.sql", "templates"])
def test_every_error_is_in_the_tree_and_has_a_docstring(room: str) -> None:
    """The tree in the docstring of an ``errors`` module has all its errors.

    Each error has a docstring, which says what to do.
    """
    module = importlib.import_module(f"{room}.errors")
    own = {
        name: kind
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == module.__name__
    }
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+)(?: {2,}.*)?$", module.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(own)
    assert [name for name, kind in own.items() if not (kind.__doc__ or "").strip()] == []

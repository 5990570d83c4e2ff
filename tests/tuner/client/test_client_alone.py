"""The client on a host with only its requirements: no compiler, no storage, no service."""

import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from alone import INSTALLED
from packaging.requirements import Requirement
from service_process import ROOT, Service

PROGRAM = Path(__file__).with_name("alone.py")
PAGE = ROOT / "docs/how-to/use-a-kernel-in-pytorch.md"


def test_client_loads_and_calls_a_kernel_with_only_its_requirements(
    service: Service, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-P", PROGRAM, service.url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shape, state, refused = done.stdout.splitlines()
    assert (shape, state) == ("(16415,)", "cancelled")
    assert refused.startswith("tuning here needs TVM's compiler, but No module named")


@pytest.mark.parametrize(
    "name", ["db.sql.engine", "api", "tvm", "tvm.runtime", "sqlalchemy", "psutil", "rich"]
)
def test_gate_refuses_every_other_package(name: str) -> None:
    code = f"import sys, alone; sys.meta_path.insert(0, alone.Gate()); import {name}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": f"{PROGRAM.parent}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert re.search(r"(ModuleNotFound|Import)Error: (No module|tvm is not)", done.stderr)


@pytest.mark.parametrize("name", ["db", "templates"])
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_import_error_names_a_module_that_hides_a_package(
    tmp_path: Path, name: str, file: str
) -> None:
    hiding = tmp_path / file.format(name)
    hiding.parent.mkdir(exist_ok=True)
    hiding.touch()
    for beside in ("contract/__init__.py", "workload.py"):  # as convtune's packages have them
        (tmp_path / beside).parent.mkdir(exist_ok=True)
        (tmp_path / beside).touch()
    (tmp_path / "program.py").write_text("from tuner.client import Client\n")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    says = f"ImportError: {hiding} hides convtune's package {name}; give it another name"
    assert done.stderr.splitlines()[-1] == says


def test_how_to_page_installs_exactly_the_allowed_packages() -> None:
    commands = re.findall(r"^pip install .*$", PAGE.read_text(), re.MULTILINE)
    whole, bare = (re.findall(r"(?<= )[\w.][\w.-]*(?= |$)", each) for each in commands)
    assert {*whole[1:], "convtune"} - {"constraints.txt"} == set(INSTALLED)
    assert bare[1:] == ["constraints.txt", "apache-tvm", "."]


def needed(name: str) -> set[str]:
    """Return the modules of the distribution and of all distributions that it requires here."""
    found = {name.replace("-", "_")}
    found |= {module for module, owners in packages_distributions().items() if name in owners}
    for each in map(Requirement, requires(name) or []):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            found |= needed(each.name)
    return found


@pytest.mark.parametrize("name", sorted(set(INSTALLED) - {"convtune", "apache-tvm-ffi"}))
def test_gate_allows_only_modules_of_installed_distributions(name: str) -> None:
    assert INSTALLED[name] <= needed(name)


def test_tuner_is_imported_from_a_zip_archive(tmp_path: Path) -> None:
    archive = tmp_path / "convtune.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for package in ("db", "templates", "tuner"):
            for file in (ROOT / package).rglob("*.py"):
                zipped.write(file, file.relative_to(ROOT))
    command = [sys.executable, "-c", "import tuner; print(tuner.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    said = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert said.startswith(str(archive))

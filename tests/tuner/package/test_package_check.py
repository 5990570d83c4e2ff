"""A package's errors about damaged files, and its check of kernels whose single output may be
zero."""

import importlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from packages import database, loaded, written
from small_libraries import FEW, built
from stored_best import store

from tuner.device.detect import detect
from tuner.process.child import Child

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of the libraries of FEW."""
    folder = tmp_path_factory.mktemp("package")
    child = Child()
    with database(folder) as (source, engine):
        device = child.call(detect, "cpu", timeout=60)
        for name in FEW:
            store(engine, built(child, folder / f"{name}-serial.so", device))
        child.close()
        return written(source, folder / "kernels-of-few")


def test_check_accepts_kernels_whose_single_output_may_be_zero(
    variant: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(variant, "kernels_of_few")
    assert importlib.import_module("kernels_of_few.check").main() == 0
    *rows, last = capsys.readouterr().out.splitlines()
    assert all("  right on " in row for row in rows), rows
    assert last.startswith("2 of 2 kernels ran, 0 wrong")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def rot(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"call"', b'"cal\xec"'))


def misspell(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"call"', b'"calm"'))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("metadata.json", cut),
        ("metadata.json", Path.unlink),
        ("kernels.json", cut),
        ("kernels.json", rot),
        ("kernels.json", misspell),
    ],
)
def test_importing_a_package_names_its_damaged_list_of_files_or_kernels(
    variant: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damaged = Path(shutil.copytree(variant, tmp_path / "damaged"))
    damage(damaged / name)
    says = f"{re.escape(str(damaged / name))} is not what was packed .*; install the package again"
    with pytest.raises(RuntimeError, match=says):
        loaded(damaged, f"damaged_{damage.__name__}_{Path(name).stem}")


def rename(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"shape"', b'"shade"'))


@pytest.mark.parametrize(
    ("suffix", "damage"), [(".so", cut), (".so", Path.unlink), (".json", cut), (".json", rename)]
)
def test_damaged_kernel_is_named_when_it_is_loaded(
    variant: Path, tmp_path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    damaged = Path(shutil.copytree(variant, tmp_path / "damaged"))
    package = loaded(damaged, f"damaged_{damage.__name__}_{suffix.strip('.')}").__name__
    library = importlib.import_module(f"{package}.library")
    kernel = importlib.import_module(f"{package}.table").KERNELS[0]
    damage(damaged / "kernels" / f"{kernel.file}{suffix}")
    with pytest.raises(library.BrokenKernel, match="install the package again") as raised:
        library.library(kernel)
    assert str(raised.value).startswith(str(damaged / "kernels" / kernel.file))

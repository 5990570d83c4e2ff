"""``python -m NAME.check`` on kernels with a single output, which may be zero."""

import importlib
from pathlib import Path

import pytest
from packages import database, loaded, written
from small_libraries import FEW, built
from stored_best import store

from tuner.device.detect import detect
from tuner.process.child import Child

pytestmark = pytest.mark.torch


def test_a_kernel_of_one_output_is_right_though_that_be_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = Child()
    with database(tmp_path) as (source, engine):
        device = child.call(detect, "cpu", timeout=60)
        for name in FEW:
            store(engine, built(child, tmp_path / f"{name}-serial.so", device))
        child.close()
        variant = written(source, tmp_path / "kernels-of-few")
    loaded(variant, "kernels_of_few")
    assert importlib.import_module("kernels_of_few.check").main() == 0
    *rows, last = capsys.readouterr().out.splitlines()
    assert all("  right on " in row for row in rows), rows
    assert last.startswith("2 of 2 kernels ran, 0 wrong")

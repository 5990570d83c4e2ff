"""A package loads as a kernel repository by Hugging Face's ``kernels``, if that is installed."""

from importlib import import_module
from pathlib import Path

import pytest
from packages import written

from tuner.client.local import Local

pytestmark = pytest.mark.torch


def test_hugging_faces_loader_loads_a_package(
    source: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hugging Face's loader finds the variant for CPUs and accepts its digest."""
    kernels = pytest.importorskip("kernels", reason="Hugging Face's kernels is not installed")
    import torch

    variant = written(source, tmp_path / "kernels-of-mine")
    package = kernels.get_local_kernel(tmp_path / "kernels-of-mine", backend="cpu")
    assert Path(package.__file__) == variant / "__init__.py"
    x, w = torch.randn(2, 3, 9, 20), torch.randn(3, 1, 3, 3)
    y = torch.nn.functional.conv2d(x, w, padding=1, groups=3)
    torch.testing.assert_close(package.depthwise_conv2d(x, w, padding=1), y)
    rust = import_module("kernels._rust")
    said = kernels.get_loaded_kernels()[-1].metadata.digest
    said.validate(rust.Digest.hash_variant(said.algorithm, variant))

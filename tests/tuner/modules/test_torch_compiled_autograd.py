"""``import tuner.torch`` leaves PyTorch's compiled autograd as it is."""

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.torch

COMPILED_AUTOGRAD = """
import torch
import tuner.torch
compiled = torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 2)), backend="aot_eager")
torch._dynamo.config.compiled_autograd = True
torch.compile(lambda: compiled(torch.ones(1, 2)).sum().backward(), backend="aot_eager")()
"""


def test_compiled_autograd_works_after_import_of_tuner_torch() -> None:
    """Modules that PyTorch makes for its graphs must not be taken for a tuned model's."""
    command = [sys.executable, "-W", "ignore", "-c", COMPILED_AUTOGRAD]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr

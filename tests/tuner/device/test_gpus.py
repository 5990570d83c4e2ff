"""The GPUs for which workers are started, as CUDA_VISIBLE_DEVICES and the user name them."""

import pytest

from tuner.device import cuda_facts
from tuner.device.gpus import chosen


@pytest.mark.parametrize(
    ("named", "visible"),
    [("0,-1,1", ["0"]), ("3, 1", ["3", "1"]), ("", ["0", "1"]), (None, ["0", "1"])],
)
def test_gpus_that_cuda_does_not_see_are_not_chosen(
    named: str | None, visible: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA ignores the first invalid entry of CUDA_VISIBLE_DEVICES and all entries after it."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    monkeypatch.setattr(cuda_facts, "missing", lambda: None)
    monkeypatch.setattr(cuda_facts, "count", lambda: len(visible))
    assert chosen("all") == visible


def test_each_of_several_mig_instances_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA counts only one MIG instance in a process, but each worker is a process of its own, so
    each instance gets one."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5c89, MIG-1d54")
    monkeypatch.setattr(cuda_facts, "missing", lambda: None)
    monkeypatch.setattr(cuda_facts, "count", lambda: 1)
    assert chosen("all") == ["MIG-5c89", "MIG-1d54"]
    assert chosen("1") == ["MIG-1d54"]

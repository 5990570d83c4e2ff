"""Clocks are read from the GPU that is measured, whichever of several GPUs it is, and short samples
begin with an uncounted replay."""

from contextlib import closing

import pytest

from tests.gpu.replays import replays_of_a_sample
from tests.gpu.two_names import two_names
from tuner.device import cuda_facts
from tuner.device.device import Device
from tuner.device.gpus import chosen
from tuner.process.child import Child

pytestmark = pytest.mark.gpu

LONG = 60.0


def names_of(visible: str) -> tuple[str, str]:
    """Return a GPU's UUID by CUDA and by NVML, from a process that sees only this GPU."""
    with closing(Child({"CUDA_VISIBLE_DEVICES": visible})) as child:
        return child.call(two_names, timeout=LONG)


def test_clocks_are_read(device: Device) -> None:
    with closing(Child()) as child:
        found = child.call(cuda_facts.clocks, timeout=LONG)
    assert sorted(found) == ["memory_mhz", "power_w", "sm_mhz", "temperature_c"]
    assert all(value > 0 for value in found.values())


def test_clocks_are_those_of_the_visible_gpu(device: Device) -> None:
    by_cuda, by_nvml = names_of(chosen("all")[0])
    assert by_cuda == by_nvml


def test_clocks_are_those_of_the_chosen_one_of_several_gpus(device: Device) -> None:
    visible = chosen("all")
    if len(visible) < 2:
        pytest.skip("needs two GPUs")
    names = [names_of(each) for each in visible]
    assert [by_nvml for _, by_nvml in names] == [by_cuda for by_cuda, _ in names]
    assert len(set(names)) == len(visible)


def test_short_sample_begins_with_an_uncounted_replay(device: Device) -> None:
    """So the GPU is busy while the host starts the replays that are counted."""
    with closing(Child()) as child:
        copies, calls, made = child.call(replays_of_a_sample, 1, timeout=LONG)
        long = child.call(replays_of_a_sample, 200, timeout=LONG)
    assert made == calls // copies + 1
    assert long == (1, 1, 1)

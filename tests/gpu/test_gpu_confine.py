"""A candidate that would harm the host or the GPU costs one trial, and the next candidate is
measured right after it."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.gpu.planted_cuda import PlantedCuda
from tests.tuner.measure.misdeeds import (
    Surroundings,
    check_costs_one_trial,
    surroundings,
)
from tests.tuner.process.test_confine import calls, files
from tuner.build.builder import Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.measure import confined
from tuner.process.child import Child

pytestmark = pytest.mark.gpu

WORKLOAD = Conv1dWorkload(M=16384, N=32)
LONG = 60.0
LIMIT = 5.0
OUT_OF_MEMORY = "cuMemAlloc: error 2"
ON_HOST = (
    "allocate", "forks", "execute", "create", "removes", "segfault", "internet", "database",
    "signal_worker", "write_on", "datagram", "share_memory", "leave_namespace", "slow_worker",
    *(["forgive_thread"] if os.geteuid() else []),  # root may write what belongs to root
)  # fmt: skip
"""The misdeeds to which CUDA's threads and files could open a way; tests/tuner/measure tests the
others."""


@pytest.fixture(scope="module")
def libraries(
    device: Device, builder: Builder, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Return the library of each behaviour of ``PlantedCuda``, by its name."""
    folder, template = tmp_path_factory.mktemp("libraries"), PlantedCuda()
    space = template.space(WORKLOAD, device.limits)
    configs = [space[index] for index in range(len(space))]
    building = [
        builder.submit(
            BuildOrder(
                WORKLOAD.key,
                program_of(template),
                config,
                device.target,
                folder / f"{config['behaviour']}.so",
            )
        )
        for config in configs
    ]
    for built in building:
        assert built.result().status == "ok", built.result().error
    return {path.stem: path for path in folder.glob("*.so")}


@pytest.fixture(scope="module")
def runner(device: Device) -> Iterator[Runner]:
    with Runner(WORKLOAD.key, device) as runner:
        yield runner


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with surroundings(tmp_path) as found:
        yield found


def test_probe_of_the_driver_works_without_full_confinement(device: Device, tmp_path: Path) -> None:
    """The probe of the driver works without full confinement; otherwise its failure in a confined
    process would prove nothing."""
    child = Child(confined.ENVIRONMENT, confinement=confined.LIMITED)
    with closing(child):
        child.call(confined.probe_driver, tmp_path, timeout=LONG)


def test_confinement_lets_a_candidate_write_to_the_driver_and_its_folder(
    device: Device, tmp_path: Path
) -> None:
    found = confined.candidate_confinement("cuda", str(tmp_path))
    if found == confined.LIMITED:
        pytest.skip("this driver does not bear confinement")
    assert found.folder == str(tmp_path)
    assert {"/dev/nvidiactl", "/dev/dxg"} & set(found.devices)


@pytest.mark.parametrize(
    ("behaviour", "status", "says"),
    [
        ("null", "run_error", ["illegal memory access", "IllegalAddress"]),
        ("far", "run_error", ["illegal memory access", "IllegalAddress"]),
        ("misaligned", "run_error", ["misaligned address", "MisalignedAddress"]),
        ("trap", "run_error", ["launch failure", "LaunchFailure", "illegal instruction"]),
        ("wrong", "wrong_answer", ["on normal input"]),
    ],
)
def test_a_kernels_fault_costs_one_trial(
    runner: Runner, libraries: dict[str, Path], behaviour: str, status: str, says: list[str]
) -> None:
    measured = runner.measure(libraries[behaviour])
    assert (measured.status, measured.timing) == (status, {})
    assert any(each in (measured.error or "") for each in says), measured.error
    after = runner.measure(libraries["right"])
    assert (after.status, after.error) == ("ok", None)


def test_a_kernel_that_never_ends_costs_one_trial(
    device: Device, libraries: dict[str, Path]
) -> None:
    """The kernel is killed with its process, so the GPU is free again when the trial ends."""
    with Runner(WORKLOAD.key, device) as runner:
        assert runner.measure(libraries["right"]).status == "ok"
        runner._timeout = LIMIT
        measured = runner.measure(libraries["endless"])
        assert (measured.status, measured.error) == ("run_timeout", "killed after 5 s")
        runner._timeout = LONG
        assert runner.measure(libraries["right"]).status == "ok"


def test_candidate_that_takes_all_gpu_memory_costs_one_trial(
    runner: Runner, libraries: dict[str, Path], around: Surroundings, tmp_path: Path
) -> None:
    measured = runner.measure(around.library("allocate_on_device", tmp_path))
    assert measured.status == "run_error"
    assert OUT_OF_MEMORY in (measured.error or "")
    assert runner.measure(libraries["right"]).status == "ok"


@calls
@files
@pytest.mark.parametrize("misdeed", ON_HOST)
def test_a_misdeed_on_the_host_costs_one_trial(
    runner: Runner,
    libraries: dict[str, Path],
    around: Surroundings,
    misdeed: str,
    tmp_path: Path,
) -> None:
    if confined.candidate_confinement("cuda", str(tmp_path)) == confined.LIMITED:
        pytest.skip("this driver does not bear confinement")
    check_costs_one_trial(runner, around, misdeed, libraries["right"], tmp_path)

"""The Fourier templates on CUDA: their results, emulated on a CPU, the workloads that they serve,
and their registers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates import templates_for
from templates.conv1d.cuda.fft import (
    LEAST_ERROR,
    CudaFft,
    block_threads,
    blocks,
    dropped,
    outputs_of_segment,
    segments_of_filter,
    shared_words,
    threads,
)
from templates.conv1d.cuda.partitions import CudaPartitions, workspace
from templates.conv1d.cuda.schedules import fft, partitions
from templates.conv1d.roles import roles
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, render
from templates.kernels.launches.next_launch import held_words
from tests.templates import emulated
from tests.templates.cuda_source import (
    begins_next_after_loads,
    cubin,
    registers_and_stack,
    source,
)
from tests.templates.devices import CPU, H200, T4
from tuner.measure import cases
from tuner.measure.check import check, relative_error

FORMS = {"fft": CudaFft(), "partitions": CudaPartitions()}
BOUNDED = settings(max_examples=6, derandomize=True, deadline=None, database=None)


def launched(workload: Conv1dWorkload, config: dict[str, Any]) -> tuple[str, list[Launch], int]:
    """Return a configuration's source, its launches and the floats of its workspace."""
    if config["template"] == "fft":
        text = render(fft.substitutions(workload, config), *fft.TRANSFORMS, fft.SOURCE)
        words = held_words(config, shared_words(config))
        extents = blocks(workload, config), block_threads(config), words
        return text, [Launch("conv1d_fft", *extents)], 0
    text = render(partitions.substitutions(workload, config), *fft.TRANSFORMS, partitions.SOURCE)
    return text, partitions.launches(workload, config), workspace(workload, config)


def assert_right(workload: Conv1dWorkload, config: dict[str, Any], folder: Any) -> None:
    text, launches, floats = launched(workload, config)
    cases.write(workload, folder, seed=1)

    def errors(case: cases.Case) -> dict[str, float]:
        output = emulated.run(workload, text, launches, case.inputs, floats, optimised=1)
        return {"output": relative_error(output, case.references["output"], case.scales["output"])}

    check(errors, cases.read(workload, folder), LEAST_ERROR)


@st.composite
def rows(draw: st.DrawFn, shortest: int, least: int, most: int) -> Conv1dWorkload:
    """Draw a workload of ``shortest`` samples or more and ``least`` to ``most`` taps.

    N > M and padding wider than the kernel are included.
    """
    N = draw(st.integers(least, most))
    M = draw(st.sampled_from([shortest, N, 3 * N + 1]) | st.integers(shortest, 4 * N))
    padded = st.fixed_dictionaries({"padding": st.tuples(*[st.integers(N, N + 40)] * 2)})
    modes = ["full", "same", "causal", *(["valid"] if N <= M else [])]
    C = draw(st.integers(1, 2))
    return Conv1dWorkload(
        M=M,
        N=N,
        B=draw(st.integers(1, 3)),
        C=C,
        F=C * draw(st.integers(1, 2)),
        kind=draw(st.sampled_from(["convolve", "correlate"])),
        **draw(padded | st.fixed_dictionaries({"mode": st.sampled_from(modes)})),
    )


@pytest.mark.parametrize(
    ("name", "shortest", "least", "most"),
    [("fft", 1, 48, 700), ("partitions", 2048, 2048, 3000)],
)
@BOUNDED
@given(data=st.data())
def test_any_configuration_is_right(
    name: str,
    shortest: int,
    least: int,
    most: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    workload, template = data.draw(rows(shortest, least, most)), FORMS[name]
    space = template.space(workload, H200)
    config = space[data.draw(st.integers(0, len(space) - 1))]
    assert_right(workload, config, tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize(
    ("B", "mode", "kind"),
    [
        (1, "full", "convolve"),
        (1, "same", "correlate"),
        (1, "causal", "convolve"),
        (2, "full", "correlate"),
        (2, "same", "convolve"),
        (2, "causal", "correlate"),
    ],
)
@pytest.mark.parametrize(
    ("name", "M", "N", "C"), [("fft", 53, 300, 2), ("partitions", 2049, 5100, 1)]
)
def test_kernels_longer_than_their_signals_are_right(
    name: str, M: int, N: int, C: int, mode: str, kind: str, B: int, tmp_path: Any
) -> None:
    """With one signal, signal and kernel swap roles, so that the shorter one is transformed once.

    The taps of a causal kernel that meet no sample are left out instead.
    """
    workload = Conv1dWorkload(M=M, N=N, mode=mode, kind=kind, B=B, C=C, F=2 * C)
    config = FORMS[name].default(workload, H200)
    assert_right(workload, config, tmp_path)
    assert roles(workload).swapped is (B == 1 and mode != "causal")
    assert roles(workload).taps.extent == (N if B == 2 and mode != "causal" else M)


@pytest.mark.parametrize("points", [512, 1024, 2048, 3072, 4096, 5120, 6144, 8192])
@pytest.mark.parametrize("spectrum", ["registers", "shared"])
def test_every_length_of_a_transform_is_right(points: int, spectrum: str, tmp_path: Any) -> None:
    workload = Conv1dWorkload(M=5 * points // 2, N=points, mode="same")
    config = CudaFft().default(workload, H200) | {"points": points, "spectrum": spectrum}
    assert_right(workload, config | {"segments": 2}, tmp_path)


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize(
    ("points", "teams", "N"),
    [
        (512, 4, 50),
        (512, 3, 700),
        (1024, 2, 300),
        (2048, 4, 2047),
        (3072, 2, 2047),
        (3072, 3, 4000),
        (5120, 2, 5120),
        (8192, 2, 9000),
    ],
)
def test_teams_that_share_a_spectrum_are_right(
    points: int, teams: int, N: int, segments: int, tmp_path: Any
) -> None:
    """Each team has ``segments`` segments; in the last block only the first team has one."""
    M = 2 * segments * teams * (2 * points - N + 1) + 1
    workload = Conv1dWorkload(M=M, N=N, mode="causal")
    config = CudaFft().default(workload, H200) | {
        "points": points,
        "teams": teams,
        "segments": segments * teams,
        "spectrum": "shared",
        "samples": "early" if segments == 1 else "late",
    }
    assert blocks(workload, config) == 3
    assert segments_of_filter(workload, config) % config["segments"] == 1
    assert_right(workload, config, tmp_path)


@pytest.mark.parametrize(
    ("M", "N", "dtype", "expected"),
    [
        (1_000_000, 2047, "float32", 2048),  # 2046 in whole sectors of 8 samples
        (1_000_000, 2047, "float16", 2048),
        (900_000, 2050, "float16", 2064),  # 2049 in whole sectors of 16 samples
        (1_000_000, 2050, "float16", 2049),  # 2064 would take another segment here
        (1_000_000, 2049, "float32", 2048),
        (8192 + 2046, 2047, "float32", 2048),
        (8194 + 2046, 2047, "float32", 2046),  # one segment only just covers the row
        (30, 48, "float32", 32),  # the signal, which is shorter, is transformed as taps
    ],
)
def test_outputs_of_a_segment_begin_with_a_sector(
    M: int, N: int, dtype: str, expected: int
) -> None:
    mode = "valid" if N <= M else "full"
    workload = Conv1dWorkload(M=M, N=N, mode=mode, dtype=dtype)
    config = {"points": 5120}
    assert dropped(workload, config) == expected
    assert outputs_of_segment(workload, config) == 2 * 5120 - expected


@pytest.mark.parametrize(("limits", "held"), [(H200, [0, 114, 76]), (T4, [0])])
@pytest.mark.parametrize("template", FORMS.values(), ids=list(FORMS))
def test_blocks_hold_memory_if_the_next_launch_begins_early(
    template: Any, limits: Any, held: list[int]
) -> None:
    """With 114 KiB a unit of an H200 has room for one block, with 76 KiB for two."""
    workload = Conv1dWorkload(M=100_000, N=4095, mode="valid")
    knobs = {knob.name: knob.values for knob in template.space(workload, limits).knobs}
    assert list(knobs["held_kib"]) == held
    for kib in held:
        config = template.default(workload, limits) | {"points": 4096, "held_kib": kib}
        _, launches, _ = launched(workload, config)
        assert {4 * launch.words for launch in launches} == {max(34816, 1024 * kib)}
        if limits is H200:
            code = cubin(source(template, workload, config, limits), limits.arch)
            assert begins_next_after_loads(code) is (kib > 0)


def test_partitions_leaves_out_input_segments_of_zeros() -> None:
    """A causal kernel as long as the signal has no input segment before the signal begins."""
    layer = Conv1dWorkload(M=32768, N=32768, mode="causal")
    config = CudaPartitions().default(layer, H200)
    assert partitions.substitutions(layer, config)["INPUTS"] == 32768 // config["points"]


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"B": 3, "C": 4, "F": 8, "bias": True, "dtype": "bfloat16"}, True),
        ({"mode": "full", "M": 100}, True),
        ({"mode": "same", "M": 12_290, "N": 65_536}, False),
        ({"mode": "same", "M": 12_289, "N": 65_536}, True),
        ({"N": 47}, False),
        ({"stride": 2}, False),
        ({"dilation": 2}, False),
        ({"C": 4, "groups": 1}, False),
        ({"C": 4, "layout": "NWC"}, False),
        ({"max_error": 4e-6}, False),
        ({"M": 100_000, "N": 20_000}, False),
    ],
    ids=str,
)
def test_fft_serves_kernels_that_fit_into_a_block(fields: dict[str, Any], served: bool) -> None:
    workload = Conv1dWorkload.model_validate({"M": 4096, "N": 511, "mode": "causal"} | fields)
    assert CudaFft().applies(workload, H200) is served


@pytest.mark.parametrize(("taps", "served"), [(2047, False), (2048, True), (65536, True)])
def test_partitions_serves_kernels_of_2048_taps_and_more(taps: int, served: bool) -> None:
    workload = Conv1dWorkload(M=100_000, N=taps, mode="valid")
    assert CudaPartitions().applies(workload, H200) is served


@pytest.mark.parametrize(
    ("B", "M", "serving"),
    [(64, 8192, ["fft", "partitions", "signals_fourier"]), (8, 32768, ["partitions"])],
    ids=str,
)
def test_only_transforms_serve_layers_too_large_for_direct_sums(
    B: int, M: int, serving: list[str]
) -> None:
    """Workloads beyond the limit of operations for direct sums have templates with transforms only,
    on a GPU and on a CPU."""
    layer = Conv1dWorkload(B=B, C=768, M=M, N=M, mode="causal", dtype="float16")
    assert [template.name for template in templates_for(layer, H200)] == serving
    assert {template.name for template in templates_for(layer, CPU)} == {"fft"}


def test_partitions_serves_no_layer_whose_workspace_is_too_large() -> None:
    fields = {"C": 768, "M": 2048, "N": 2048, "mode": "causal", "dtype": "float16"}
    served = [CudaPartitions().applies(Conv1dWorkload(B=B, **fields), H200) for B in (600, 682)]
    assert served == [True, False]


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("template", FORMS.values(), ids=list(FORMS))
def test_the_longest_transforms_stay_in_registers(template: Any, limits: Any) -> None:
    workload = Conv1dWorkload(M=1_000_000, N=4095, mode="valid")
    longest = max(config["points"] for config in template.space(workload, limits))
    config = template.default(workload, limits) | {"points": longest}
    text = source(template, workload, config, limits)
    registers, stack = registers_and_stack(cubin(text, limits.arch))
    assert (registers * threads(config) <= limits.registers_per_unit, stack) == (True, 0)

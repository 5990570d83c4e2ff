"""The Fourier template on a CPU: kernels longer than signals, machine code without masked moves,
and refusals."""

import re
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.cpu.fft import CpuFft
from templates.conv1d.workload import Conv1dWorkload
from templates.errors import InvalidConfig
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU
from tuner.build.compile import BuildOrder, assembly, program_of

AVX512 = {"kind": "llvm", "mcpu": "x86-64-v4"}
MASKED_MOVE = re.compile(r"\tv(?:mov\w+|maskmov\w+)\t.*\{%k[1-7]\}")


@pytest.mark.parametrize(
    "workload", [Conv1dWorkload(M=5003, N=2053), Conv1dWorkload(M=211, N=509, kind="correlate")]
)
def test_fft_compiles_without_masked_moves(workload: Conv1dWorkload, tmp_path: Path) -> None:
    """The last block is longer than the rest of the signal. LLVM could mask all of its vectors, and
    a masked move to a page that is not mapped takes a microsecond."""
    template = CpuFft()
    config = template.default(workload, CPU)
    source = assembly(
        BuildOrder(workload.key, program_of(template), config, AVX512, tmp_path / "none.so")
    )
    assert "zmm" in source
    assert not MASKED_MOVE.findall(source)


@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize(("M", "N"), [(53, 300), (1000, 2300)])
def test_fft_taps_that_meet_no_sample_add_no_error(M: int, N: int, kind: Any) -> None:
    """In a decaying kernel these taps may be the largest ones. In a transform, their rounding
    errors would exceed the error that is allowed for the outputs of all other taps."""
    workload = Conv1dWorkload(M=M, N=N, mode="causal", kind=kind)
    template = CpuFft()
    compiled = Compiled(template, workload, template.default(workload, CPU))
    for case in cases_of(workload):
        assert max(compiled.errors(case).values()) <= workload.max_error, case.name


def test_refusal_explains_the_knobs_radix_and_largest() -> None:
    workload = Conv1dWorkload(M=5003, N=2053)
    template = CpuFft()
    space, config = template.space(workload, CPU), template.default(workload, CPU)
    with pytest.raises(
        InvalidConfig,
        match="radix is the largest factor, and largest is first if all factors are equal",
    ):
        space.index(config | {"largest": "last"})  # the factors are 8, 8 and 8

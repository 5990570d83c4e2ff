"""A NaN or an infinity in the input reaches the outputs that are sums over it and no others, unless
the template's arithmetic says that it spreads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.arithmetic import DIRECT
from templates.conv1d.workload import Conv1dWorkload
from templates.records.trace import Trace
from templates.workload import Workload
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU
from tests.templates.nonfinite import BAD, planted, reached
from tests.templates.shapes import SMALL

BOUNDED = settings(max_examples=18, derandomize=True, deadline=None, database=None)
PLACES = st.floats(0, 1)


def stays(workload: Workload, place: float, bad: float, data: st.DataObject) -> None:
    """Assert, for one configuration of each template that does not spread ``bad``, that exactly the
    outputs whose sums contain ``bad`` aren't finite."""
    x, w = planted(workload, place, bad)
    for template in templates.templates_for(workload, CPU):
        if template.arithmetic.spreads_nonfinite:
            continue
        space = template.space(workload, CPU)
        config = space[data.draw(st.integers(0, len(space) - 1))]
        y = Compiled(template, workload, config).run(x, w)
        wrong = np.flatnonzero(np.isfinite(y) == reached(workload, x))
        assert not wrong.size, (config, wrong)


@pytest.mark.parametrize("operator", SMALL)
@BOUNDED
@given(data=st.data(), place=PLACES, bad=st.sampled_from(BAD))
def test_nonfinite_input_reaches_only_the_sums_over_it(
    operator: str, data: st.DataObject, place: float, bad: float
) -> None:
    bare = SMALL[operator]().filter(lambda workload: not workload.has_epilogue)
    stays(data.draw(bare), place, bad, data)


@settings(BOUNDED, max_examples=6)
@given(data=st.data(), taps=st.integers(600, 4500), place=PLACES, bad=st.sampled_from(BAD))
def test_taps_in_several_chunks_do_not_spread_nonfinite_input(
    data: st.DataObject, taps: int, place: float, bad: float
) -> None:
    stays(Conv1dWorkload(M=5003, N=taps), place, bad, data)


def test_fft_spreads_a_nan_as_its_arithmetic_says() -> None:
    workload = Conv1dWorkload(M=400, N=100)
    (fft,) = (t for t in templates.templates_for(workload, CPU) if t.name == "fft")
    x, w = planted(workload, 0.5, np.nan)
    y = Compiled(fft, workload, fft.default(workload, CPU)).run(x, w)
    assert np.isnan(y).sum() > reached(workload, x).sum()
    assert fft.arithmetic.spreads_nonfinite


def test_every_template_and_a_trace_name_their_arithmetic() -> None:
    for operator in templates.operators():
        for each in operator.templates:
            found = templates.arithmetic_of(operator.name, each.kind, each.name)
            assert found is each.arithmetic
        assert templates.arithmetic_of(operator.name, "cpu", Trace.name) is DIRECT
        assert templates.arithmetic_of(operator.name, "cpu", "of another release") is None

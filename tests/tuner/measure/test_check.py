"""The check of outputs against references: how errors are measured and wrong outputs named."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.measure import check as room
from tuner.measure.cases import Case
from tuner.measure.check import WrongAnswer, check, relative_error

SIZE = 2 * room.CHUNK + 3


def case(reference: np.ndarray, name: str = "normal") -> Case:
    empty = np.zeros(1, np.float32)
    return Case(name, (empty, empty), {"output": reference})


def of(answer: np.ndarray) -> Callable[[Case], dict[str, float]]:
    """Return the errors, by output, of a program that gives ``answer`` in each case."""

    def errors(case: Case) -> dict[str, float]:
        (exact,), (scale,) = case.references.values(), case.scales.values()
        return {"output": relative_error(answer, exact, scale)}

    return errors


def off_by(error: float, at: int) -> np.ndarray:
    """Return the reference, whose largest value is 4, with 4 * error added at one element."""
    y = reference().astype(np.float32).copy()
    y[at] += np.float32(4 * error)
    return y


def reference() -> np.ndarray:
    exact = np.zeros(SIZE)
    exact[SIZE // 2] = -4.0
    return exact


@pytest.mark.parametrize("at", [0, room.CHUNK - 1, room.CHUNK, SIZE - 1])
def test_error_is_relative_to_the_largest_value_of_the_reference(at: int) -> None:
    assert relative_error(off_by(1e-3, at), reference()) == pytest.approx(1e-3, rel=1e-6)


@pytest.mark.parametrize("at", [0, SIZE - 1])
def test_error_just_under_the_limit_passes_and_just_over_fails(at: int) -> None:
    known = [case(reference())]
    assert check(of(off_by(0.99e-5, at)), known, 1e-5) == pytest.approx(0.99e-5, rel=1e-4)
    with pytest.raises(WrongAnswer, match=r"^error 1\.01e-05 on normal input, allowed 1e-05$"):
        check(of(off_by(1.01e-5, at)), known, 1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, room.CHUNK, SIZE - 1])
def test_nan_or_infinite_output_is_a_wrong_answer(bad: float, at: int) -> None:
    with pytest.raises(WrongAnswer, match=r"error (nan|inf) on normal input"):
        check(of(off_by(bad, at)), [case(reference())], 0.1)


def test_nan_is_not_hidden_by_a_larger_error_elsewhere() -> None:
    y = off_by(1e9, 0)
    y[-1] = np.nan
    assert np.isnan(relative_error(y, reference()))


def test_an_all_zero_reference_must_be_met_exactly() -> None:
    zero = np.zeros((2, 3))
    assert relative_error(np.zeros((2, 3), np.float32), zero) == 0.0
    assert relative_error(np.full((2, 3), 1e-30, np.float32), zero) == float("inf")


def test_error_of_float16_is_computed_in_float64() -> None:
    exact = np.array([1.0, 1.0 + 2.0**-11, -3.0])
    assert relative_error(exact.astype(np.float16), exact) == 2.0**-11 / 3
    overflowed = np.array([1.0, np.inf], np.float16)
    assert relative_error(overflowed, np.array([1.0, 70000.0])) == float("inf")


def test_check_returns_the_largest_error_and_names_the_first_wrong_case() -> None:
    errors = {"a": 1e-6, "b": 3e-6, "c": 1.0, "d": 2.0}
    known = [case(reference(), name) for name in errors]
    assert check(lambda each: {"output": errors[each.name]}, known[:2], 1e-5) == 3e-6
    with pytest.raises(WrongAnswer, match="error 1 on c input"):
        check(lambda each: {"output": errors[each.name]}, known, 1e-5)


@pytest.mark.parametrize("wrong", ["first", "second"])
def test_check_names_the_wrong_one_of_several_outputs(wrong: str) -> None:
    known = [case(reference())]
    right = {"first": 2e-6, "second": 1e-6}
    assert check(lambda _: right, known, 1e-5) == 2e-6
    with pytest.raises(WrongAnswer, match=f"error nan of {wrong} on normal input"):
        check(lambda _: right | {wrong: float("nan")}, known, 1e-5)


@given(st.integers(1, 40), st.integers(0, 2**32), st.integers(1, 12))
def test_relative_error_does_not_depend_on_the_chunk_size(size: int, seed: int, chunk: int) -> None:
    rng = np.random.default_rng(seed)
    y, exact = rng.standard_normal(size, np.float32), rng.standard_normal(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "CHUNK", chunk)
        assert relative_error(y, exact) == np.abs(y - exact).max() / np.abs(exact).max()

"""Numbers, peers, noise and rooflines in words, as pages and the shell show them."""

import pytest

from db.read.in_words import (
    noise_in_words,
    number,
    peer_in_words,
    roofline_in_brief,
    roofline_in_words,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0.0, "0"), (0.015, "0.015"), (0.0231, "0.0231"), (1.3251, "1.33"),
        (209.4, "209"), (12345.6, "12,346"), (2.4e-7, "2.4e-07"), (6.7e13, "6.7e+13"),
    ],
)  # fmt: skip
def test_number_is_rounded_to_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_number_keeps_two_digits_of_a_small_error() -> None:
    assert number(0.0231, 2) == "0.023"


def test_faster_peer_is_shown_with_both_times() -> None:
    rows = [{"name": "pytorch NHWC", "time_us": 209.0}, {"name": "numpy", "time_us": 900.0}]
    assert peer_in_words({}, 487.0, rows) == "pytorch NHWC was faster: 209 µs against 487 µs"
    assert peer_in_words({}, 208.0, rows) is None


def test_faster_call_is_shown_as_called_from_python() -> None:
    rows = [{"name": "numpy", "time_us": 0.5, "level": "call"}]
    said = peer_in_words({"call": {"median_us": 2.8}}, 0.015, rows)
    assert said == "numpy was faster: 0.5 µs against 2.80 µs, each called from Python"


def test_noise_is_shown_with_its_reason() -> None:
    noise = {"quiet": False, "spread": 0.38, "load": 3.7, "reason": "others ran; end them"}
    assert noise_in_words({"noise": noise}) == "not a quiet machine: others ran; end them"
    assert noise_in_words({"noise": noise | {"quiet": True, "reason": None}}) is None
    assert noise_in_words({}) is None


def test_roofline_in_words_shows_the_fraction_and_its_bound() -> None:
    near = {"fraction": 0.62, "bound": "memory", "floor_us": 3.65}
    assert roofline_in_words(near, "H200") == (
        "62% of what H200 allows, which is 3.65 µs, bound by memory"
    )
    said = roofline_in_words(near | {"fraction": 1.4}, "H200")
    assert said == "faster than memory allows (3.65 µs): its data is in the cache"
    beyond = roofline_in_words(near | {"fraction": 1.4, "bound": "compute"}, "H200")
    assert beyond is not None and "tensor cores" in beyond
    unknown = {"fraction": None, "bound": None, "floor_us": None}
    assert roofline_in_words(unknown, "H200") is None


def test_roofline_in_brief_shows_the_fraction() -> None:
    assert roofline_in_brief(0.62, "memory") == "62%"
    assert roofline_in_brief(1.4, "memory") == "in the cache"
    assert roofline_in_brief(None, None) == "–"

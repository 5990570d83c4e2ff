"""The versions stored with a result: by what it was compiled and timed, and with which options."""

from tuner.build.cuda_compile import OPTIONS
from tuner.measure.versions import versions


def test_a_cuda_result_says_how_it_was_compiled() -> None:
    assert versions("cuda")["nvrtc_options"].split() == list(OPTIONS)
    assert "nvrtc_options" not in versions("cpu")


def test_every_result_says_by_what_it_was_compiled_and_timed() -> None:
    for kind in ("cpu", "cuda"):
        assert {"convtune", "timing_protocol", "apache-tvm", "apache-tvm-ffi"} <= set(
            versions(kind)
        )

"""The versions stored with a result: of the programs that compiled and timed it, and their
options."""

from tuner.build.cuda_compile import OPTIONS
from tuner.measure.versions import versions


def test_versions_of_a_cuda_result_have_nvrtcs_options() -> None:
    assert versions("cuda")["nvrtc_options"].split() == list(OPTIONS)
    assert "nvrtc_options" not in versions("cpu")


def test_versions_of_every_result_have_tvm_and_the_timing_protocol() -> None:
    for kind in ("cpu", "cuda"):
        assert {"convtune", "timing_protocol", "apache-tvm", "apache-tvm-ffi"} <= set(
            versions(kind)
        )

"""The comparison of a best with its fastest peer."""

from typing import Any

from db.results.fastest import fastest, fastest_peer, own_time

CALLED = {"call": {"median_us": 12.0}}


def row(name: str, time_us: float | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "time_us": time_us, **more}


def test_convtune_is_fastest_if_no_peer_is_faster() -> None:
    ours = {"name": "convtune", "time_us": 10.0}
    assert fastest({}, 10.0, []) == ours
    assert fastest({}, 10.0, [row("NumPy", 10.0), row("PyTorch", 30.0)]) == ours


def test_a_faster_peer_is_named_with_its_time() -> None:
    rows = [row("NumPy", 400.0), row("PyTorch NHWC", 209.0), row("PyTorch NCHW", 220.0)]
    assert fastest({}, 487.0, rows) == {"name": "PyTorch NHWC", "time_us": 209.0}


def test_fastest_ignores_own_baselines_and_failed_peers() -> None:
    """Own baselines, wrong peers and peers without a time are no alternative to our kernel."""
    rows = [
        row("default", 1.0),
        row("naive", 2.0),
        row("PyTorch TF32", 3.0, error="wrong: error 0.001, allowed 1e-05"),
        row("Triton", None, error="ImportError"),
    ]
    assert fastest({}, 10.0, rows)["name"] == "convtune"


def test_peer_called_from_python_is_compared_with_our_call() -> None:
    numpy = row("NumPy", 11.0, level="call")
    assert fastest(CALLED, 10.0, [numpy]) == {"name": "NumPy", "time_us": 11.0}
    assert own_time(CALLED, 10.0, numpy) == 12.0
    cudnn = row("cuDNN", 11.0, level="kernel")
    assert fastest(CALLED, 10.0, [cudnn])["name"] == "convtune"
    assert own_time(CALLED, 10.0, cudnn) == 10.0


def test_fastest_compares_ratios_of_peers_of_two_levels() -> None:
    """Peers of two levels are compared by their ratio to our time of the same level."""
    rows = [row("cuDNN", 9.0, level="kernel"), row("NumPy", 6.0, level="call")]
    assert fastest(CALLED, 10.0, rows)["name"] == "NumPy"


def test_peer_is_compared_with_the_kernel_if_no_call_was_timed() -> None:
    assert fastest({}, 10.0, [row("NumPy", 11.0)])["name"] == "convtune"
    assert own_time({}, 10.0, row("NumPy", 11.0, level="call")) == 10.0


def test_fastest_peer_comes_with_the_speedup_over_it() -> None:
    rows = [
        row("default", 1.0),
        row("NumPy", 60.0, level="call"),  # 5 times the time of our call, 12 µs
        row("cuDNN", 40.0, level="kernel"),  # 4 times the time of our kernel, 10 µs
        row("PyTorch TF32", 3.0, error="wrong"),
    ]
    assert fastest_peer(CALLED, 10.0, rows) == {"name": "cuDNN", "time_us": 40.0, "speedup": 4.0}
    assert fastest_peer(CALLED, 80.0, rows)["speedup"] == 0.5
    assert fastest_peer({}, 10.0, rows[:1]) == {}

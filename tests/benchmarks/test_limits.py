"""The page of limits, made from invented figures: bars that are reached, missed or not measured,
and the merge of parts."""

from typing import Any

import pytest

from tests.benchmarks.limits import __main__ as command
from tests.benchmarks.limits.bars import BARS, Bar
from tests.benchmarks.limits.figures import judged, times_as_fast
from tests.benchmarks.limits.page import bars, markdown
from tests.benchmarks.limits.shapes import SHAPES, Shape

DEVICE = {"kind": "cuda", "name": "NVIDIA H200", "arch": "sm_90", "driver": "1"}
RUN = {"command": "it", "date": "2026-01-01", "device": DEVICE, "host": "Linux", "peers": {}}
LAYERS = [shape for shape in SHAPES["cuda"] if shape.group == "depthwise_b32"]
FASTER = Bar("faster", "depthwise B=32 *", "× as fast", 2, "least", over="pytorch N*")
FASTER_ON_AVERAGE = Bar(
    "faster on average", "depthwise B=32 *", "× as fast", 2, "least", mean=True, over="pytorch N*"
)


def row(shape: Shape, warm: float, **peers: float) -> dict[str, Any]:
    """Return a row of a shape whose best takes ``warm`` µs and whose peers take the given µs.

    An underscore in a peer's name stands for a space.
    """
    return {
        "name": shape.name,
        "run": 0,
        "operator": shape.operator,
        "workload": shape.fields | {"max_error": 1e-5},
        "best": {
            "config": {"template": "made", "knob": 1},
            "timing": {
                "warm": {"median_us": warm},
                "cold": {"median_us": 2 * warm},
                "empty_us": 0.75,
            },
            "max_error": 1e-6,
            "roofline": {"floor_us": 1.0},
            "versions": {"made": "1"},
            "baselines": [
                baseline(name, time) | {"speedup": time / warm} for name, time in peers.items()
            ],
        },
        "by_template": {"made": warm},
        "trials": 512,
        "failed": {"wrong_answer": 3},
        "found_at": 7,
        "trials_per_second": 20.0,
        "job_seconds": 30.0,
    }


def baseline(name: str, time_us: float | None, error: str | None = None) -> dict[str, Any]:
    """Return a baseline without its speed-up, which :func:`row` adds."""
    return {"name": name.replace("_", " "), "time_us": time_us, "error": error}


def state(bar: Bar, rows: list[dict[str, Any]]) -> tuple[str, float | None, str | None]:
    verdict = judged(bar, rows, "cuda", DEVICE["name"])
    return verdict.state, verdict.value, verdict.of


def test_bar_is_decided_by_its_worst_shape_or_by_the_mean() -> None:
    rows = [row(shape, 10, pytorch_NCHW=50, pytorch_NHWC=30) for shape in LAYERS]
    assert state(FASTER, rows)[:2] == ("reached", pytest.approx(3))
    rows[4] = row(LAYERS[4], 10, pytorch_NCHW=15, pytorch_NHWC=30)
    assert state(FASTER, rows) == ("**not reached**", pytest.approx(1.5), LAYERS[4].name)
    reached, mean, of = state(FASTER_ON_AVERAGE, rows)
    assert (reached, mean, of) == ("reached", pytest.approx(3 * 0.5 ** (1 / len(LAYERS))), None)


def test_bar_is_not_judged_until_every_shape_is_measured() -> None:
    rows = [row(shape, 10, pytorch_NCHW=50) for shape in LAYERS]
    said = f"not measured ({len(LAYERS) - 1} of {len(LAYERS)} shapes)"
    assert state(FASTER, rows[1:])[0] == said
    failed = {"name": LAYERS[0].name, "run": 0, "error": "nothing worked"}
    assert state(FASTER, [failed, *rows[1:]])[0] == said
    assert state(FASTER, [row(LAYERS[0], 10), *rows[1:]])[0] == said


def test_best_is_compared_only_with_peers_that_are_right_and_timed() -> None:
    """A best is not compared with the default, the naive program, wrong peers or untimed peers."""
    best = row(LAYERS[0], 10, default=11, naive=12, scipy=40)
    best["best"]["baselines"] += [baseline("quick", 5, "wrong: error 1"), baseline("gone", None)]
    assert times_as_fast(best) == pytest.approx(4)
    assert times_as_fast(best, "quick") is None


def test_floor_of_a_large_shape_follows_from_its_bytes() -> None:
    """The shape is 96×112² k3, 308 MB: 71.7 µs at 4.3 TB/s."""
    bar = Bar("floor", LAYERS[1].name, "× floor", 1.35)
    assert state(bar, [row(LAYERS[1], 2 * 71.7)])[:2] == (
        "**not reached**",
        pytest.approx(2, 1e-3),
    )


def test_every_bar_matches_tuned_shapes() -> None:
    for kind, wanted in BARS.items():
        for bar in wanted:
            assert "of 0 shapes" not in judged(bar, [], kind, "").state


def test_merge_puts_rows_in_the_order_of_the_shapes() -> None:
    failed = {"name": LAYERS[0].name, "run": 0, "error": "nothing worked"}
    first = {"runs": [RUN], "rows": [row(LAYERS[2], 10), failed]}
    second = {"runs": [RUN | {"date": "2026-01-02"}], "rows": [row(LAYERS[0], 20, pytorch_NHWC=40)]}
    joined = command.merged([first, second])
    assert [(each["name"], each["run"]) for each in joined["rows"]] == [
        (LAYERS[0].name, 1),
        (LAYERS[2].name, 0),
    ]
    text = markdown(joined, [judged(FASTER, joined["rows"], "cuda", DEVICE["name"])])
    assert "Measured in 2 runs" in text
    assert "2026-01-02" in text
    assert f"| {LAYERS[0].name} | **20.00** | 40.00 |  |  |  | 0.75 | 1.0e-06 | 1e-05 |" in text
    assert "| faster |  | not measured (1 of 17 shapes) |" in text
    assert "| pytorch NHWC 40.00 | 2.00 | 7 of 512 |" in text


def test_bars_without_a_measured_shape_are_named_below_the_table() -> None:
    lines = bars([judged(FASTER, [], "cuda", DEVICE["name"])])
    assert not [line for line in lines if line.startswith("| faster")]
    assert lines[-1] == "Not measured: faster."


def test_merge_keeps_the_notes_of_all_parts() -> None:
    parts: list[dict[str, Any]] = [
        {"runs": [RUN], "rows": [], "note": ["The first run", "was long."]},
        {"runs": [RUN], "rows": []},
        {"runs": [RUN], "rows": [], "note": ["The last was not."]},
    ]
    text = markdown(command.merged([command.merged(parts[:2]), parts[2]]), [])
    assert "\n\nThe first run\nwas long.\nThe last was not.\n\n" in text


def test_limits_page_names_a_failed_shape() -> None:
    failed = {"name": LAYERS[0].name, "run": 0, "error": "nothing worked"}
    text = markdown({"command": "it", "runs": [RUN], "rows": [failed]}, [])
    assert f"{LAYERS[0].name}: no best. nothing worked" in text


def test_merge_refuses_parts_of_different_devices() -> None:
    other = RUN | {"device": DEVICE | {"name": "another"}}
    with pytest.raises(SystemExit, match="different devices: NVIDIA H200, another"):
        command.merged([{"runs": [RUN], "rows": []}, {"runs": [other], "rows": []}])

"""Curves and charts: thinned curves keep extremes and failures, charts keep to their scale."""

from hypothesis import given
from hypothesis import strategies as st

from api.web import curves
from api.web.charts import Bar, bars, roofline
from db.read.views import Point

times = st.none() | st.floats(1e-3, 1e6)


def points(given: list[float | None]) -> list[Point]:
    return [
        Point(number, "run_error" if time is None else "ok", time, float(number))
        for number, time in enumerate(given, 1)
    ]


@given(st.lists(times, max_size=400), st.integers(30, 60))
def test_thinned_curves_have_the_same_envelope(given: list[float | None], most: int) -> None:
    """A thinned curve keeps the extremes, the final best, and whether trials failed."""
    whole = points(given)
    kept = curves.thinned(whole, most)
    assert len(kept) <= most
    assert [p.number for p in kept] == sorted({p.number for p in kept})
    timed = [p.time_us for p in whole if p.time_us]
    if timed:
        shown = [p.time_us for p in kept if p.time_us]
        assert (min(shown), max(shown)) == (min(timed), max(timed))
        assert curves.columns(kept, 0.0)["best"][-1] == min(timed)
    assert any(p.status != "ok" for p in kept) == any(p.status != "ok" for p in whole)


def test_curve_that_falls_throughout_is_thinned_to_the_limit() -> None:
    whole = points([None if n % 5 == 0 else float(n) for n in range(5000, 0, -1)])
    assert curves.MOST_POINTS / 2 < len(curves.thinned(whole)) <= curves.MOST_POINTS


def test_thinned_steps_keep_the_last_step() -> None:
    found = curves.steps(points([float(n) for n in range(5000, 0, -1)]))
    assert len(found) <= curves.MOST_STEPS
    assert found[-1].time_us == 1.0


def test_bars_stay_within_their_scale() -> None:
    given = [
        Bar("a", "ok", 10.0, ""),
        Bar("b", "ok", 1000.0, "", mark=2000.0),
        Bar("c", "", None, ""),
    ]
    for chart in (bars(given), bars(given, logarithmic=True)):
        lengths = [row["length"] for row in chart.rows]
        assert 0 < lengths[0] < lengths[1] < chart.rows[1]["mark"] <= 100
        assert lengths[2] == 0
    assert bars([]).rows == []


def test_roofline_is_drawn_only_if_the_peaks_are_known() -> None:
    assert roofline({}, 100, 10, {"best": 1.0}) is None
    limits = {"peak_flops": 1e12, "peak_bandwidth": 1e11}
    roof = roofline(limits, 10**9, 10**7, {"best": 2000.0, "peer": 20_000.0})
    assert roof is not None
    best, peer = roof["points"]
    close = roofline(limits, 10**9, 10**7, {"best": 2000.0, "second": 2001.0})
    assert close is not None
    assert abs(close["points"][0]["label_y"] - close["points"][1]["label_y"]) >= 15
    assert (best["rate"], peer["rate"]) == (500.0, 50.0)
    assert roof["line"]["y"] < best["y"] < peer["y"] < roof["bottom"]
    assert round(roof["attainable"], 6) == 1000.0


def test_point_above_the_roofline_stays_inside_the_chart() -> None:
    """A point above the roofline, whose data is in the cache, stays inside the chart."""
    limits = {"peak_flops": 1e11, "peak_bandwidth": 1e10}
    roof = roofline(limits, 10**9, 10**9, {"ours": 1000.0})
    assert roof is not None
    (ours,) = roof["points"]
    assert ours["rate"] == 1000.0 > roof["peak_gflops"]
    assert roof["top"] < ours["y"] < roof["ridge"]["y"]

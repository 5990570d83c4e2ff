"""Randomly drawn shapes of conv1d, and their page, made from invented figures."""

from typing import Any

from templates.conv1d.workload import Conv1dWorkload
from tests.benchmarks.draws.__main__ import merged
from tests.benchmarks.draws.page import markdown
from tests.benchmarks.draws.shapes import drawn
from tests.benchmarks.test_limits import RUN, row


def workloads(target: str) -> list[Conv1dWorkload]:
    return [Conv1dWorkload.model_validate(shape.fields) for shape in drawn(400, 3, target)]


def test_larger_draw_of_a_seed_begins_with_the_same_shapes() -> None:
    assert drawn(40, 1, "cuda") == drawn(48, 1, "cuda")[:40]
    assert drawn(40, 1, "cuda") != drawn(40, 2, "cuda")
    assert len({shape.name for shape in drawn(400, 1, "cuda")}) == 400


def test_drawn_shapes_cover_all_lengths_within_the_limits() -> None:
    shapes = workloads("cuda")
    assert all(2**12 <= shape.M <= 2**24 for shape in shapes)
    assert min(shape.M for shape in shapes) < 2**13
    assert max(shape.M for shape in shapes) > 2**23
    assert min(shape.N for shape in shapes) == 1
    assert max(shape.N for shape in shapes) > 2**15
    assert len({(shape.mode, shape.kind) for shape in shapes[:8]}) == 8


def test_drawn_signals_are_shorter_on_a_cpu() -> None:
    assert 2**19 < max(shape.M for shape in workloads("cpu")) <= 2**20


def test_draws_page_lists_worst_shapes_first_and_counts_slower_ones() -> None:
    shapes = drawn(3, 1, "cuda")
    rows: list[dict[str, Any]] = [
        row(shapes[0], 10, quick=30),
        row(shapes[1], 10, quick=5, slow=50),
        {"name": shapes[2].name, "run": 0, "error": "nothing worked"},
    ]
    result = merged([{"runs": [RUN], "rows": rows[:1]}, {"runs": [RUN], "rows": rows[1:]}])
    assert [each["name"] for each in result["rows"]] == [shapes[i].name for i in (2, 1, 0)]
    text = markdown(result)
    assert "**1 of 2 shapes are slower than their fastest peer**" in text
    assert f"| {shapes[1].name} | made | **10.00** |  | quick | 5.00 | 0.50 |" in text
    assert f"{shapes[2].name}: no best. nothing worked" in text

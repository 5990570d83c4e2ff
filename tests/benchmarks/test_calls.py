"""The benchmark of calls: its page matches its figures, and its calls take turns."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.benchmarks import calls  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "calls"


def test_calls_page_matches_its_figures() -> None:
    result = json.loads(PAGE.with_suffix(".json").read_text())
    assert calls.page(result) == PAGE.with_suffix(".md").read_text()


def test_calls_take_turns() -> None:
    called: list[str] = []
    times = calls.in_turns({name: lambda name=name: called.append(name) for name in ("a", "b")})
    assert list(times) == ["a", "b"] and min(times.values()) > 0
    assert called == (["a"] * calls.CALLS + ["b"] * calls.CALLS) * calls.TURNS

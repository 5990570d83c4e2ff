"""The README's figures are those of the benchmarks' pages, and the links of all documents lead to a
file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [
    *ROOT.glob("*.md"), *(ROOT / "docker").glob("*.md"), *(ROOT / "docs").rglob("*.md")
]  # fmt: skip
RESULT = re.compile(
    r"^\| (?P<shape>[^|]+) \| (?P<device>[^|]+) \| \*\*(?P<best>[\d.]+)\*\* \| (?P<peer>[^|]+) \|$",
    re.MULTILINE,
)
MODEL = re.compile(
    r"^\| (?P<network>\w+ \w+ B=\d+(?: L=\d+)?) \| [^|]+ "
    r"\| (?P<figures>[^|]+ \| [^|]+ \| \*\*[\d.]+\*\*) \|$",
    re.MULTILINE,
)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PAGES = {"NVIDIA H200": ("h200.md", "best, warm"), "Intel Xeon": ("cpu.md", "call")}
"""For each device, its page of benchmarks and the column that the README quotes."""


def test_every_readme_figure_is_on_a_page_of_benchmarks() -> None:
    results, models = list(RESULT.finditer(README)), list(MODEL.finditer(README))
    assert len(results) + len(models) == README.count(" | **")
    assert results
    assert models
    page = (ROOT / "docs/benchmarks/models.md").read_text()
    for model in models:
        assert re.search(
            rf"^\| \[{re.escape(model['network'])}\]\([^)]+\) \| {re.escape(model['figures'])} \|",
            page,
            re.MULTILINE,
        ), model[0]
    for result in results:
        ((page, column),) = [found for name, found in PAGES.items() if name in result["device"]]
        lines = (ROOT / "docs/benchmarks" / page).read_text().splitlines()
        (at,) = [n for n, line in enumerate(lines) if line.startswith(f"| {result['shape']} | **")]
        names = next(line for line in reversed(lines[:at]) if line.startswith("| shape |"))
        row = dict(zip(cells(names), cells(lines[at]), strict=True))
        assert row[column].strip("*") == result["best"]
        assert result["peer"] in row.values()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_documents_lead_to_a_file(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", FENCED.sub("", path.read_text()))
    assert [link for link in links if not (path.parent / link).exists()] == []

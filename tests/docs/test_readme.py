"""The README's figures are those of the benchmarks' pages, its links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [
    *ROOT.glob("*.md"), *(ROOT / "docker").glob("*.md"), *(ROOT / "docs").rglob("*.md")
]  # fmt: skip
RESULT = re.compile(
    r"^\| (?P<shape>[^|]+) \| (?P<device>NVIDIA H200|AMD EPYC)[^|]* \| "
    r"\*\*(?P<best>[\d.]+)\*\* \| (?P<peer>[^|]+) \|$",
    re.MULTILINE,
)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PAGES = {"NVIDIA H200": "h200.md", "AMD EPYC": "cpu.md"}


def test_every_figure_is_a_measured_one() -> None:
    results = list(RESULT.finditer(README))
    assert len(results) == README.count(" | **")
    for result in results:
        page = (ROOT / "docs/benchmarks" / PAGES[result["device"]]).read_text()
        (row,) = (
            line for line in page.splitlines() if line.startswith(f"| {result['shape']} | **")
        )
        assert f"| **{result['best']}** |" in row
        assert f"| {result['peer']} |" in row


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", FENCED.sub("", path.read_text()))
    assert [link for link in links if not (path.parent / link).exists()] == []

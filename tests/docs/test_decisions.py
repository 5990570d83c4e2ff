"""The decision records have one form, ARCHITECTURE.md links each of them, and the files that they
name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "ARCHITECTURE.md"
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
NAMED = re.compile(r"`((?:api|db|docs|templates|tests|tuner)/[\w./]+)`")


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [path.name[:3] for path in DECISIONS]
    assert numbers == [f"{n:03d}" for n in range(1, len(DECISIONS) + 1)] != []


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_decision_has_its_three_parts_and_a_link_in_the_map(path: Path) -> None:
    text = path.read_text()
    title = re.escape(path.name[:3])
    assert re.match(rf"# {title}\. .+\n\n\*\*Context\.\*\* ", text)
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Choice", "Cost"]
    assert f"](docs/decisions/{path.name})" in MAP.read_text()


@pytest.mark.parametrize("path", [MAP, *DECISIONS], ids=lambda path: path.stem)
def test_files_that_a_page_names_exist(path: Path) -> None:
    assert [name for name in NAMED.findall(path.read_text()) if not (ROOT / name).exists()] == []


def test_architecture_map_lists_every_folder() -> None:
    text = MAP.read_text()
    for top in ("api", "db", "tuner"):
        section = text[text.index(f"| `{top}/` |") :].partition("\n\n")[0]
        folders = {path.parent.name for path in (ROOT / top).glob("*/__init__.py")}
        assert {name[:-1] for name in re.findall(r"`(\w+/)`", section)} - {top} == folders


def test_architecture_map_fits_three_screens() -> None:
    assert len(MAP.read_text().splitlines()) <= 165

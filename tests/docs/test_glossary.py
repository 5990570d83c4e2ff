"""The glossary has one line for each word, and no tracked file uses a word of its last column."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = "docs/glossary.md"
HISTORY = "CHANGELOG.md"
"""The changelog may use former words: entries of old releases are not rewritten."""
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / GLOSSARY).read_text().splitlines()
    if line.startswith("| ")
][1:]
FORMERLY = [word for row in ROWS for word in re.findall(r"`([^`]+)`", row[2])]


def test_a_word_has_one_line_and_a_meaning() -> None:
    words = [word for row in ROWS for word in row[0].split(", ")]
    assert len(words) == len(set(words)) > 20
    assert all(len(row) == 3 and row[1] for row in ROWS)
    assert len(ROWS) <= 40 and FORMERLY


@pytest.mark.parametrize("word", FORMERLY)
def test_former_word_is_used_nowhere(word: str) -> None:
    excluded = [f":!{path}" for path in (GLOSSARY, HISTORY)]
    found = subprocess.run(
        [
            "git",
            "grep",
            "--line-number",
            "--word-regexp",
            "--fixed-strings",
            "-e",
            word,
            "--",
            ".",
            *excluded,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode not in (0, 1):
        pytest.skip("this is no git checkout")
    assert found.stdout == ""

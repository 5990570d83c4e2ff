"""The README's blocks run if they are pasted in their order into one shell."""

import json
import subprocess
from pathlib import Path

from how_to import ROOT, TRIALS, Block, Room, blocks

SECONDS = 280
HEAD = """
curl() { command curl --fail --silent --show-error "$@"; echo; }
trap 'kill $(jobs -p)' EXIT
"""


def test_readme_blocks_run_if_pasted_into_one_shell(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (tmp_path / "pasted.sh").write_text(HEAD + "".join(typed(room, block) for block in readme()))
    said, logged = tmp_path / "said.txt", tmp_path / "logged.txt"
    with said.open("w") as out, logged.open("w") as log:  # no pipes: a left process would hold them
        done = subprocess.run(
            ["bash", "-eu", "pasted.sh"],
            cwd=tmp_path,
            # the README's last block is for a CPU
            env=room.environment | {"CUDA_VISIBLE_DEVICES": ""},
            stdout=out,
            stderr=log,
            timeout=SECONDS,
            check=False,
        )
    lines = said.read_text().splitlines()
    assert done.returncode == 0, "\n".join([*lines, logged.read_text()[-3000:]])
    answers = [json.loads(line) for line in lines if line.startswith('{"')]
    answers = [each for each in answers if {"id", "match"} & each.keys()]
    ordered, best = answers[0], answers[-1]
    assert (ordered["state"], best["job"]) == ("queued", ordered["id"])
    assert float(lines[-1].removeprefix("error: ")) < 1e-4


def test_readme_has_no_other_block_that_could_be_run() -> None:
    assert [block.language for block in readme() if "installs" not in block.words] == [
        "sh", "sh", "sh", "python", "python", "python",
    ]  # fmt: skip


def test_readme_shell_blocks_have_no_comments() -> None:
    """By default, an interactive zsh takes the words behind # for arguments."""
    assert [block.text for block in readme() if block.language == "sh" and "#" in block.text] == []


def readme() -> list[Block]:
    """Return the README's blocks."""
    return blocks([ROOT / "README.md"])


def typed(room: Room, block: Block) -> str:
    """Return a block as text for the shell, with few trials; empty if it installs packages."""
    if "installs" in block.words:
        return ""
    text = TRIALS.sub(r"\g<1>3", block.text)
    for old, new in room.replaced.items():
        text = text.replace(old, new)
    return text if block.language == "sh" else f"python - <<'PASTED'\n{text}PASTED\n"

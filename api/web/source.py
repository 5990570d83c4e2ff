"""Source code as HTML, with syntax classes for the style sheet."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

SHOWN_LINES = 600
SHOWN_CHARACTERS = 80_000
_LEXERS = {
    "text/x-cuda": "cuda",
    "text/x-asm": "gas",
    "text/x-llvm": "llvm",
    "text/x-c": "c",
    "python": "python",
    "shell": "bash",
}


@dataclass(frozen=True)
class Source:
    """Source code as a page shows it."""

    html: Markup
    lines: int  # in all
    shown: int  # how many of them are in ``html``


def highlighted(text: str, media_type: str) -> Source:
    """Return the first lines of a source, as many as a page should hold."""
    lines = text[:SHOWN_CHARACTERS].split("\n")[:SHOWN_LINES]
    lexer = get_lexer_by_name(_LEXERS.get(media_type, "text"), stripnl=False)
    html = highlight("\n".join(lines), lexer, HtmlFormatter(nowrap=True))
    # Pygments escapes what it is given
    return Source(Markup(html), text.count("\n") + 1, len(lines))  # noqa: S704

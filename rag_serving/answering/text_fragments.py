"""Links that scroll to the quoted words: text fragments.

WICG, "URL Fragment Text Directives" (https://wicg.github.io/scroll-to-text-fragment/):
`text=[prefix-,]start[,end][,-suffix]`; `-`, `,` and `&` of a text are percent-encoded because they part the directive's
terms. A browser finds `start` within one block of the page, so words of several blocks are named by the first and the
last of these.

Belongs here: the directive, and what the page shows of Markdown.
Does not belong here: which words are quoted (`answering.citations`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote as percent_encoded

_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\((?:[^()\n]|\([^()\n]*\))*\)")
_EMPHASIS = re.compile(r"(\*\*|__|~~|`+|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))")
_MARKER = r"(?:[-*+]\s|\d{1,3}[.)]\s|\||#{1,6}\s|```|>)"
_BLOCK_BORDER = re.compile(rf"\n\s*\n|\n(?=\s*{_MARKER})")
_BLOCK_MARK = re.compile(rf"^\s*(?:{_MARKER}\s*)+")


def fragment_url(url: str, quote: str, before: str = "", after: str = "") -> str:
    """Return the link to the quoted words, `url#anchor:~:text=…`, told from the same words elsewhere by those around
    them."""
    blocks = [shown for block in _BLOCK_BORDER.split(quote) if (shown := plain(_BLOCK_MARK.sub("", block)))]
    if not blocks:
        return url
    terms = [_encoded(block) for block in dict.fromkeys((blocks[0], blocks[-1]))]
    if prefix := _encoded(_blocks_text(before)[-1]):
        terms.insert(0, f"{prefix}-")
    if suffix := _encoded(_blocks_text(after)[0]):
        terms.append(f"-{suffix}")
    return f"{url}{'' if '#' in url else '#'}:~:text={','.join(terms)}"


def is_repeated(quote: str, page: str) -> bool:
    """Return whether the page shows the quoted words more than once; browsers do not regard case."""
    shown = _visible(quote)
    return bool(shown) and _visible(page).count(shown) > 1


def plain(markdown_text: str) -> str:
    """Markdown as the page shows it: link texts alone, no emphasis or code marks, the longest cell of a table row."""
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", markdown_text))
    cells = [cell.strip() for cell in text.split(" | ")]
    return " ".join(max(cells, key=len).split())


def _blocks_text(text: str) -> list[str]:
    """Return what the page shows of each block of a text, at least one."""
    return [plain(_BLOCK_MARK.sub("", block)) for block in _BLOCK_BORDER.split(text)]


def _encoded(text: str) -> str:
    return percent_encoded(text, safe="").replace("-", "%2D")


@lru_cache(maxsize=64)
def _visible(text: str) -> str:
    """Return what a reader sees of a page or quote, in lower case; the pages that are cited again are kept."""
    shown = _EMPHASIS.sub("", _LINK.sub(r"\1", text))
    lines = (_BLOCK_MARK.sub("", line).replace("|", " ") for line in shown.split("\n"))
    return " ".join(" ".join(lines).casefold().split())

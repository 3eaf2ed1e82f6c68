"""Boilerplate: sections that help to find one's way and answer nothing.

Belongs here: the criteria. They are conservative: what is boilerplate here is never found.
Does not belong here: duplicates (a step over all pages), what a question may find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_assets.steps.formats.blocks import Block

_NAVIGATION = re.compile(
    r"(?:table of )?contents?|toc|[io]n this (?:page|section|article)|(?:quick )?navigation|page tree|children"
    r"|(?:child|sub) ?pages"
    r"|recent(?:ly updated| updates)|contributors|labels|search this (?:space|documentation)|breadcrumbs"
)
_LEFTOVER = re.compile(
    r"(?:table of )?contents|toc|on this page|in this (?:section|page|article)|child pages|page tree|navigation|menu"
    r"|(?:back to |go to |return to )?(?:the )?top(?: of (?:the )?page)?|back to (?:home|index|overview)"
    r"|(?:go |return )?back|next(?: page)?|prev(?:ious)?(?: page)?|home|up"
    r"|more|(?:read|see|show) more|show all|click here(?: to expand)?"
    r"|edit(?: (?:this|the) (?:page|section))?|view (?:source|history|this page)|(?:print|share)(?: this page)?"
    r"|(?:was|is) this (?:page|article) helpful|like|comments?|labels?|no labels|contributors|recently updated"
    r"|this page (?:is|was) (?:intentionally|deliberately) (?:left )?blank|intentionally left blank"
    r"|tbd|tba|tbc|todo|to do|to be (?:done|defined|determined|added|written)"
    r"|work in progress|wip|coming soon|placeholder"
    r"|(?:page )?(?:last )?(?:updated|modified|edited|changed|created)(?: (?:by|on|at)\b.{0,80})?"
    r"|(?:copyright|\(c\)|©).{0,120}|.{0,60}all rights reserved|powered by (?:atlassian|confluence).{0,60}"
    r"|(?:add|enter|type|insert|put|write) (?:your |the |a |any |some )?"
    r"(?:text|content|description|details|title|notes) here",
)
_HINT = re.compile(r"[<\[{](?:[^<>\[\]{}]{0,200})[>\]}]")  # all of a line in brackets: a template's hint
_MARKS = " \t>-*|[].:;,…!?→←↑↓»«·•_="
_LINKED = 0.6


def is_boilerplate(heading: str, blocks: Sequence[Block]) -> bool:
    """Return whether a section holds navigation, template hints, footers or edit notices and nothing else.

    - Never with code, and never with a table.
    - Every line is a known leftover ("Back to top", "TBD", "Last updated by …"), a bracketed hint or image name, or
      marks without letters.
    - Or the heading names navigation ("Contents", "Child pages") and most of the text is links.
    """
    if any(block.kind in ("code", "table") for block in blocks):
        return False
    lines = [line for block in blocks for line in block.text.splitlines()]
    if all(_is_leftover(line) for line in lines):
        return True
    linked, letters = sum(block.linked for block in blocks), sum(len(block.text) for block in blocks)
    return bool(_NAVIGATION.fullmatch(_bare(heading))) and linked >= _LINKED * letters


def _is_leftover(line: str) -> bool:
    if len(line) > 300:
        return False
    bare = _bare(line)
    return not any(c.isalnum() for c in bare) or bool(_LEFTOVER.fullmatch(bare) or _HINT.fullmatch(line.strip(" >-*")))


def _bare(line: str) -> str:
    """Return a line without list marks, quotes and closing punctuation, in lower case."""
    return line.strip(_MARKS).lower()

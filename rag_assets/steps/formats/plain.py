"""Plain text, read: lines under each other become paragraphs.

Belongs here: where a paragraph of plain text ends.
Does not belong here: what kind of file the text came from (`files.file_text`).
"""

from __future__ import annotations

from collections import Counter

from rag_assets.steps.formats.blocks import BREAK, Block, Content, paragraphs

_LINES_MAX = 40  # a log has no empty lines; its lines still become blocks that a chunk can hold


def plain_content(body: str) -> Content:
    """Return the paragraphs of a plain text: an empty line or a form feed ends one, and so does the fortieth line."""
    blocks: list[Block] = []
    for paragraph in paragraphs(BREAK.join(body.replace("\f", "\n\n").splitlines())):
        lines = paragraph.split("\n")
        for start in range(0, len(lines), _LINES_MAX):
            blocks.append(Block("paragraph", "\n".join(lines[start : start + _LINES_MAX])))
    return Content(blocks, Counter())

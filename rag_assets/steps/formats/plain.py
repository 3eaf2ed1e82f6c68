"""Plain text, read: lines under each other become paragraphs.

Belongs here: where a paragraph of plain text ends.
Does not belong here: what kind of file the text came from (`attachment_text`).
"""

from __future__ import annotations

from collections import Counter

from rag_assets.steps.formats.blocks import BREAK, Block, Content, paragraphs

_LINES_MAX = 40  # a log has no empty lines; its lines still become blocks that a chunk can hold


def plain_content(body: str) -> Content:
    """Paragraphs of a plain text: an empty line ends one, and so does the fortieth line.

    A form feed ends a page, and each page becomes a section with the anchor that PDF viewers know (`page=2`, RFC 8118).
    """
    pages = body.split("\f")
    blocks: list[Block] = []
    for number, page in enumerate(pages, start=1):
        found = paragraphs(BREAK.join(page.splitlines()))
        if found and len(pages) > 1:
            blocks.append(Block("heading", f"Page {number}", level=1, anchors=(f"page={number}",)))
        for paragraph in found:
            lines = paragraph.split("\n")
            for start in range(0, len(lines), _LINES_MAX):
                blocks.append(Block("paragraph", "\n".join(lines[start : start + _LINES_MAX])))
    return Content(blocks, Counter())

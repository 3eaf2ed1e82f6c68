"""Markdown, read: CommonMark with tables, by way of the elements that storage format has too.

Belongs here: which Markdown is understood.
Does not belong here: what an element leaves in the text (`storage_elements`).
"""

from __future__ import annotations

from rag_assets.steps.formats.storage_elements import Content, storage_content


def markdown_content(body: str) -> Content:
    """Blocks of a Markdown body; HTML inside it is read as HTML. Raises PageError where it cannot be read."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "xhtmlOut": True}).enable(["table", "strikethrough"])
    return storage_content(parser.render(body))

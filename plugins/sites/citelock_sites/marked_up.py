"""Standalone files of reStructuredText.

Belongs here: their text as HTML whose headings carry ids. Does not belong here: the markup, sites.
"""

from __future__ import annotations

from citelock_sites.markup import MarkupError
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.records import FileError, FileText, PagesDone, decoded
from rag_assets.steps.formats.budget import first_chars, noted
from rag_assets.steps.formats.macros import with_losses


def rst_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return a file of reStructuredText as HTML, without its includes. Raises FileError if it cannot be read."""
    from citelock_sites.rst.page import rst_page

    text, cut = first_chars(decoded(content), composed.budget)
    try:
        page = rst_page(text)
    except MarkupError as error:
        raise FileError(str(error)) from None
    body = with_losses(f"<main>{page.html}</main>", page.lost)
    return FileText(noted(body, cut) if cut else body, "html")

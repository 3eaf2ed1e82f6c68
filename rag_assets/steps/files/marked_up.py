"""Files of reStructuredText and AsciiDoc that stand alone.

Belongs here: their text as HTML whose headings carry ids. Does not belong here: the markup (`steps.markup`), sites.
"""

from __future__ import annotations

from typing import Literal

from rag_assets.steps.files.records import FileError, FileText
from rag_assets.steps.formats.budget import Budget, first_chars, noted
from rag_assets.steps.formats.losses import with_losses
from rag_assets.steps.markup.records import MarkupError


def marked_up(kind: Literal["rst", "asciidoc"], text: str, budget: Budget) -> FileText:
    """Return a file as HTML; what it includes is not at hand.

    Raises:
        FileError: it cannot be read.
    """
    text, cut = first_chars(text, budget)
    try:
        if kind == "rst":
            from rag_assets.steps.markup.rst.page import rst_page

            page = rst_page(text)
        else:
            from rag_assets.steps.markup.asciidoc.page import asciidoc_page

            page = asciidoc_page(text)
    except MarkupError as error:
        raise FileError(str(error)) from None
    body = with_losses(f"<main>{page.html}</main>", page.lost)
    return FileText(noted(body, cut) if cut else body, "html")

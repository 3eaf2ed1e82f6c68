"""ODT files: what an OpenDocument text says, in blocks.

Belongs here: the body of a text, headers and footers that are left out. Does not belong here: blocks (`odf_text`).
"""

from __future__ import annotations

from citelock_formats.odf_styles import STYLE, open_document
from citelock_formats.odf_text import OpenText
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.office.block_writer import BlockWriter
from rag_assets.steps.files.records import FileText, PagesDone


def odt_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an OpenDocument text. Raises FileError if it cannot be read."""
    package, body, styles = open_document(content, "OpenDocument text", "text")
    writer = BlockWriter(composed.budget)
    text = OpenText(package, styles, writer)

    def read() -> None:
        text.container(body)
        text.write_notes()
        pages = package.xml("styles.xml")
        for node in () if pages is None else pages.iter(f"{STYLE}header", f"{STYLE}footer"):
            writer.count("page header or footer", "navigation", int(bool("".join(node.itertext()).strip())))

    return writer.file_text(read)

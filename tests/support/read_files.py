"""Files of tests as readers see them."""

from __future__ import annotations

import io
import zipfile

from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.sections.reading import DirectReader


def zipped(members: dict[str, str | bytes]) -> bytes:
    """Return a zip of files by their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def read(name: str, content: bytes) -> Content:
    """Return the blocks of a file."""
    found = file_text(name, content)
    return DirectReader().content(found.body, found.body_format)


def lines(content: Content) -> list[str]:
    """Return blocks as lines; headings with a hash for each level."""
    return [f"{'#' * block.level} {block.text}".strip() for block in content.blocks if block.kind != "reference"]

"""The files that pages were read from, kept as they came: serving renders them.

Belongs here: a folder of files named by their SHA-256, and what a row of PAGES says of one.
Does not belong here: the text of a file (`rag_assets.steps.files.file_text`), handing files to a generation
(`rag_assets.publishing.documents`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import TypedDict

from rag_serving.artifacts.store import write_bytes

FOLDER = "originals"
"""Of `Store.source(key)`."""


class OriginalFacts(TypedDict):
    """The column `original` of PAGES."""

    sha256: str
    media_type: str
    bytes: int
    page_count: int | None  # None: not paged, or not known
    received_sha256: str | None  # of the file as it came, where this one was made from it; None: this is it


def keep_original(
    folder: Path, content: bytes, media_type: str, page_count: int | None = None, received_sha256: str | None = None
) -> OriginalFacts:
    """Store a file under its digest, and return its facts for the row; an existing one is not written.

    Args:
        folder: `Store.source(key) / FOLDER`; made if it is not there.
        content: the whole file.
        media_type: as RFC 6838 has it, such as `application/pdf`.
        page_count: how many pages it has.
        received_sha256: of this one's source file.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    facts = OriginalFacts(
        sha256=sha256,
        media_type=media_type,
        bytes=len(content),
        page_count=page_count,
        received_sha256=received_sha256,
    )
    if not is_kept(folder, facts):
        write_bytes(folder / sha256, content)
    return facts


def is_kept(folder: Path, original: OriginalFacts) -> bool:
    """Return whether a file of this digest and size exists; its content is compared on publication."""
    path = folder / original["sha256"]
    return path.is_file() and path.stat().st_size == original["bytes"]


def remove_unnamed(folder: Path, named: Collection[str]) -> list[str]:
    """Remove the files whose digest is not among `named`, and the remains of a killed writer; return their names."""
    if not folder.is_dir():
        return []
    unnamed = sorted(path.name for path in folder.iterdir() if path.name not in named)
    for name in unnamed:
        (folder / name).unlink(missing_ok=True)
    return unnamed

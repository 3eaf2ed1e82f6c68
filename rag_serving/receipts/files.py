"""The files that cited pages were read from, and the pages of quotes: what a receipt notes of them, whether that holds.

Belongs here: digests of files, pages and OCR of quotes. Does not belong here: texts, quotes and verdicts (`replay`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from rag_serving.artifacts.store import StoreError
from rag_serving.indexes.originals import Original
from rag_serving.records.passages import Lock
from rag_serving.records.places import ocr_told, page_told

Receipt = Mapping[str, Any]
WITH_PAGES = 8
"""The first version of a receipt that notes files, and how quotes of paged documents were read."""


class Files(Protocol):
    """What holds the files of pages: a generation."""

    @property
    def shows_all(self) -> bool:
        """Return whether a file that it does not show is not there."""
        ...

    def original(self, page_id: str) -> Original | None: ...


def file_faults(receipt: Receipt, files: Files) -> Iterator[str]:
    """Yield where the file of a cited page is another than was noted, is missing, or was altered; its bytes are
    read."""
    for passage in receipt["passages"]:
        noted, what = passage.get("file"), f"file [{passage['index']}]"
        if not noted:
            continue
        original = files.original(passage["page_id"])
        if original is None and not files.shows_all:
            continue
        if original is None:
            yield f"{what}: the generation has no file of page {passage['page_id']}"
        elif original.digests() != noted:
            yield f"{what}: it has SHA-256 {original.sha256}, noted is {noted.get('sha256')}"
        else:
            try:
                original.read()
            except StoreError:
                yield f"{what}: it is missing or was altered"


def page_faults(receipt: Receipt, lock: Lock) -> Iterator[str]:
    """Yield the citations that name another page than their quote stands on, or do not say how OCR read it."""
    if receipt["version"] < WITH_PAGES:
        return
    for citation in receipt["citations"]:
        what, passage = f"citation [{citation['index']}]", lock.passage(citation["passage"])
        if passage is None:
            continue
        chunk, start, end = passage.chunk, citation["start"], citation["end"]
        page, read = chunk.page_at(start), chunk.ocr_confidence(start, end)
        if page is not None and citation["page"] != page:
            yield f"{what}: it names page {citation['page']}, the quote stands on page {page}"
        if citation["ocr_confidence"] != read or (citation["verification"] == "ocr") != (read is not None):
            yield f"{what}: it does not say how sure OCR was of the quote ({read})"


def proved_lines(receipt: Receipt) -> Iterator[str]:
    """Yield what a receipt that holds proves of each quote of a paged document, in one line."""
    files = {passage["index"]: passage.get("file") for passage in receipt["passages"]}
    for citation in receipt["citations"]:
        if not citation.get("page"):
            continue
        read = citation.get("ocr_confidence")
        said = f"citation [{citation['index']}]: the quote stands in the stored text of "
        said += page_told(citation["page"], citation.get("page_label"))
        said += f", read by {ocr_told(read)}" if read is not None else ""
        if file := files.get(citation.get("passage")):
            said += f"; the file has SHA-256 {file['sha256']}"
            received = file.get("received_sha256")
            said += f", made searchable from one with SHA-256 {received}" if received else ""
        yield said

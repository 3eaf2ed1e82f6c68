"""Scanned documents of a folder and of wiki pages: their rows, what is kept, and what is read again and when."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from scanning import Processes, counting, joined, lines, need_tesseract, scanned, shades, text_of, text_pdf
from support.constants import configured, section_of

from citelock_formats.ocr.scans import Scans, examine
from rag_assets.parsing.reader import FOLDER, LimitedReader
from rag_assets.sources.base import SyncResult
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_assets.sources.documents.folder import DocumentFolder
from rag_assets.state.records import write_sync
from rag_assets.steps.formats.blocks import blocks_content
from rag_serving.config.sections import Documents
from rag_serving.config.sources import Files

ENGLISH = "The turbine was inspected in March.\nAll 48 blades were replaced."
TYPED = "\n".join("This page was typed, and has a text layer of its own." for _ in range(5))


class Scanned:
    """A folder of documents; each sync gets what the last one left."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.docs, self.folder = folder / "docs", folder / "sources" / "docs"
        self.processes = processes
        self.docs.mkdir()
        self.last: SyncResult | None = None

    def sync(self, **ocr: Any) -> dict[str, dict[str, Any]]:
        settings = Files(kind="files", tenant="acme", path=self.docs, readers="everyone")
        documents = section_of(Documents, ocr={"languages": ["eng"], **ocr})
        scans = Scans(documents, self.folder / FOLDER, child=self.processes.looker)
        with LimitedReader(documents, self.processes.parser, scans) as reader:
            source = DocumentFolder("docs", settings, DocumentReading(reader, self.folder / "originals"))
            last = self.last
            self.last = source.sync(last.pages if last else None, last.state if last else {})
            assert self.last.unaccounted == 0
            write_sync(self.folder, None, self.last, scans)
        return {row["title"]: row for row in self.last.pages.to_pylist()}

    def kept(self) -> int:
        return sum(path.is_file() for path in (self.folder / FOLDER).rglob("*"))


@pytest.fixture
def documents(tmp_path: Path, processes: Processes) -> Scanned:
    return Scanned(tmp_path, processes)


def test_a_scan_is_a_page_with_a_file_that_has_its_text(documents: Scanned, tmp_path: Path) -> None:
    need_tesseract()
    command, notes = counting(tmp_path)
    content = joined(text_pdf(TYPED), scanned(text_pdf(ENGLISH)))
    (documents.docs / "report.pdf").write_bytes(content)
    row = documents.sync(command=str(command))["report"]
    original = row["original"]
    assert original["received_sha256"] == hashlib.sha256(content).hexdigest()
    kept = (documents.folder / "originals" / original["sha256"]).read_bytes()
    assert text_of(kept)[1] == " ".join(ENGLISH.split())
    assert (shades(kept, 1) == shades(content, 1)).all()
    assert "48 blades were replaced" in row["body"]
    assert len(lines(notes)) == 1
    if row["body_format"] == "blocks":
        read = blocks_content(row["body"])
        manner = "in eng at 200 dpi (documents.ocr.languages, documents.ocr.dpi)"
        assert read.ledger[f"page read by OCR {manner}", "rendered"] == 1
        sure = {block.page: block.confidence for block in read.blocks if block.text}
        assert sure[1] is None
        assert (sure[2] or 0) > 60
    assert documents.sync(command=str(command))["report"] == row
    assert len(lines(notes)) == 1
    (documents.docs / "report.pdf").write_bytes(joined(content, text_pdf("One page more.")))
    assert documents.sync(command=str(command))["report"]["version"] == 2
    assert len(lines(notes)) == 1  # the scan is in the new version, too
    assert documents.kept() == 2
    (documents.docs / "report.pdf").write_bytes(text_pdf(TYPED))
    documents.sync(command=str(command))
    assert documents.kept() == 0


def test_what_lacks_a_program_is_read_once_there_is_one(documents: Scanned) -> None:
    need_tesseract()
    (documents.docs / "scan.pdf").write_bytes(scanned(text_pdf(ENGLISH)))
    (documents.docs / "mixed.pdf").write_bytes(joined(text_pdf(TYPED), scanned(text_pdf(ENGLISH))))
    rows = documents.sync(command="nowhere")
    assert [*rows] == ["mixed"]
    assert documents.last is not None
    (why,) = dict(documents.last.failures).values()
    assert "install tesseract-ocr" in why
    assert "48 blades" not in rows["mixed"]["body"]
    rows = documents.sync()
    assert "48 blades" in rows["scan"]["body"]
    if rows["mixed"]["body_format"] == "blocks":
        assert "48 blades" in rows["mixed"]["body"]


def test_other_settings_of_ocr_read_again_what_they_affect(documents: Scanned, tmp_path: Path) -> None:
    need_tesseract()
    command, notes = counting(tmp_path)
    (documents.docs / "scan.pdf").write_bytes(scanned(text_pdf(ENGLISH)))
    (documents.docs / "typed.pdf").write_bytes(text_pdf(TYPED))
    first = documents.sync(command=str(command))
    assert len(lines(notes)) == 1
    assert documents.sync(command=str(command), timeout_s=30) == first  # reads no other way
    assert documents.sync(command="nowhere", dpi=120) == first  # nothing could be read now
    assert len(lines(notes)) == 1
    coarse = documents.sync(command=str(command), dpi=120)
    assert len(lines(notes)) == 2
    assert "at 120 dpi" in coarse["scan"]["body"]
    assert coarse["typed"] == first["typed"]
    assert documents.sync(command=str(command)) == first
    assert len(lines(notes)) == 3


def test_the_doctor_says_what_reads_scanned_pages(tmp_path: Path) -> None:
    need_tesseract()

    def told(**ocr: Any) -> list[tuple[str, str, str]]:
        files = {"kind": "files", "tenant": "acme", "path": str(tmp_path), "readers": "everyone"}
        config = {"home": str(tmp_path), "tenants": {"acme": {}}, "sources": {"docs": files}, "documents": {"ocr": ocr}}
        return [(one.state, one.detail, one.mend) for one in examine(configured(config))]

    ((state, detail, _),) = told(languages=["eng"])
    assert (state, detail.startswith("tesseract 5"), detail.endswith(" in eng")) == ("ok", True, True)
    ((state, detail, mend),) = told(command="nowhere")
    assert (state, detail) == ("warn", "OCR needs tesseract; scanned pages have no text")
    assert mend.startswith("install tesseract-ocr")
    assert told(enabled=False) == [("ok", "off: scanned pages have no text", "")]
    assert not [*examine(configured({"home": str(tmp_path), "tenants": {"acme": {}}}))]

"""Files whose plug-in is not installed are recorded with what to install, and read once it is."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources.pdf_writer import pdf

from rag_assets.monitoring.source_health import examine
from rag_assets.parsing.reader import LimitedReader, opened_scans
from rag_assets.sources.base import SourceError, SyncResult
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_assets.sources.documents.folder import DocumentFolder
from rag_assets.sources.sites.source import SiteFolder
from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import blocks_content
from rag_serving import plugins
from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.sections import Documents
from rag_serving.config.sources import DocsFolder, Files

MAIL = b"Received: x\nFrom: a@example.org\nSubject: Berths\n\nBerth 7 is closed.\n"
WHY = "files of this kind are read with citelock[formats]; install it on the machine that builds"
LOST = "page without a text layer: OCR needs citelock[formats] (documents.ocr.enabled)"


@pytest.fixture(autouse=True)
def hidden() -> Iterator[pytest.MonkeyPatch]:
    """No plug-in is installed until this is undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", lambda **_: [])
        plugins.loaded.cache_clear()
        yield patch
    plugins.loaded.cache_clear()


def synced(folder: Path, last: SyncResult | None = None) -> SyncResult:
    settings = Files(kind="files", tenant="acme", path=folder, readers="everyone")
    documents = Documents()
    with LimitedReader(documents, scans=opened_scans(documents, folder.parent / "ocr")) as reader:
        source = DocumentFolder("docs", settings, DocumentReading(reader))
        return source.sync(last.pages if last else None, last.state if last else {})


def test_each_file_says_what_to_install_and_is_read_afterwards(tmp_path: Path, hidden: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.eml").write_bytes(MAIL)
    (folder / "b.rtf").write_bytes(b"{\\rtf1 Words.}")
    (folder / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "d.md").write_text("Text.")
    (folder / "e.pdf").write_bytes(pdf("A page", "", "Another page"))
    first = synced(folder)
    assert first.unaccounted == 0
    assert [row["title"] for row in first.pages.to_pylist()] == ["d", "e"]
    assert [why.partition(": ")[2] for _, why in sorted(first.failures)] == [WHY] * 3
    (scanned,) = (row["body"] for row in first.pages.to_pylist() if row["title"] == "e")
    assert blocks_content(scanned).ledger[LOST, "lost"] == 1
    hidden.undo()
    plugins.loaded.cache_clear()
    second = synced(folder, first)
    assert {"a", "b", "d", "e"} == {row["title"] for row in second.pages.to_pylist()}
    assert LOST not in next(row["body"] for row in second.pages.to_pylist() if row["title"] == "e")


def test_a_part_of_an_archive_says_what_it_needs() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.eml", MAIL)
        file.writestr("b.md", "Text.")
    assert f"a.eml: {WHY}" in file_text("a.zip", out.getvalue()).body


def test_what_must_be_recognized_needs_the_plug_in(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pip install 'citelock\[formats\]'"):
        opened_scans(Documents(ocr={"enabled": True}), tmp_path)


def test_the_doctor_says_what_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.eml").write_bytes(MAIL)
    source = {"kind": "files", "tenant": "acme", "path": str(folder), "readers": "everyone"}
    config = {"home": str(tmp_path), "tenants": {"acme": {}}, "sources": {"docs": source}}
    ocr, files, _ = [*examine(parse_config(config))]
    assert (ocr.state, ocr.mend) == ("warn", "install citelock[formats]")
    assert files.state == "warn"
    assert files.detail.endswith("; those of kind email cannot be read")
    assert files.mend == "install citelock[formats] here, or they fail"


def site(folder: Path, **files: str) -> SiteFolder:
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    settings = DocsFolder(kind="docs_folder", tenant="acme", path=folder, readers="everyone")
    return SiteFolder("docs", settings, DocumentReading())


def test_a_site_whose_generator_a_plug_in_reads_says_what_to_install(tmp_path: Path) -> None:
    source = site(tmp_path / "docs", docusaurus__config__js="", a__md="# A")
    with pytest.raises(SourceError, match=r"'docs' is a site of docusaurus: pip install 'citelock\[sites\]'"):
        source.sync(None, {})


def test_a_page_of_mdx_says_what_to_install_and_is_read_afterwards(tmp_path: Path, hidden: pytest.MonkeyPatch) -> None:
    source = site(tmp_path / "docs", a__md="# A\n\nText.", b__md="# B\n\nText.", c__mdx="# C\n\nText {1 + 1}.")
    first = source.sync(None, {})
    assert {row["title"] for row in first.pages.to_pylist()} == {"A", "B"}
    assert [why for _, why in first.failures] == [f"c.mdx: {WHY.replace('formats', 'sites')}"]
    hidden.undo()
    plugins.loaded.cache_clear()
    second = source.sync(first.pages, first.state)
    assert {row["title"] for row in second.pages.to_pylist()} == {"A", "B", "C"}

"""PDF and Office files beside the pages of a site are documents of the same source, with addresses and reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sources.pdf_writer import pdf
from sources.site_docs import Docs

SAMPLES = Path(__file__).parents[1] / "office" / "samples"
BASE = "https://docs.example/x/"


@pytest.fixture
def docs(tmp_path: Path) -> Docs:
    docs = Docs(tmp_path)
    docs.write("mkdocs.yml", "exclude_docs: drafts/\n")
    docs.write("docs/index.md", "# Home\n\n[The paper](files/paper.pdf)\n")
    docs.write("docs/files/paper.pdf", pdf("first page", "second page"))
    return docs


def test_documents_are_read_as_files_are_and_links_lead_to_them(docs: Docs) -> None:
    docs.write("docs/manual.docx", (SAMPLES / "manual.docx").read_bytes())
    docs.sync(base_url=BASE)
    rows = docs.rows()
    paper = rows["docs/files/paper.pdf"]
    assert (paper["title"], paper["url"]) == ("paper", f"{BASE}files/paper.pdf")
    assert (paper["body_format"], paper["original"]["page_count"]) == ("blocks", 2)
    assert rows["docs/manual.docx"]["body_format"] == "blocks"
    assert f'href="{BASE}files/paper.pdf"' in rows["docs/index.md"]["body"]
    docs.last = None
    docs.sync()
    assert f'href="/p/{docs.rows()["docs/files/paper.pdf"]["page_id"]}"' in docs.rows()["docs/index.md"]["body"]


def test_what_they_are_is_told_by_their_content_and_what_is_not_read_has_a_reason(docs: Docs) -> None:
    docs.write("docs/really_a.docx", pdf("a pdf all the same"))
    docs.write("docs/no.pdf", "plain words")
    docs.write("docs/broken.pdf", b"%PDF-1.7 and then nothing")
    docs.write("docs/old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    docs.write("docs/drafts/x.pdf", pdf("draft"))
    docs.write("docs/logo.png", b"\x89PNG")
    result = docs.sync()
    assert set(docs.rows()) == {"docs/index.md", "docs/files/paper.pdf", "docs/really_a.docx"}
    reasons = docs.reasons()
    assert reasons["docs/no.pdf"] == "it is not a PDF, whatever its name says"
    assert "before 2007" in reasons["docs/old.doc"]
    assert reasons["docs/drafts/x.pdf"] == "mkdocs.yml leaves it out (exclude_docs)"
    assert "docs/broken.pdf" in reasons
    assert result.failed == 1
    assert result.notes == ("2 files are no documents: pictures, settings, source code",)


def test_an_unchanged_document_is_not_read_again_and_a_page_beside_it_does_not_touch_it(
    docs: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs.sync(base_url=BASE)
    before = docs.rows()["docs/files/paper.pdf"]
    docs.write("docs/further.md", "# Further\n")

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was read again")

    monkeypatch.setattr("rag_assets.sources.documents.document_pages.RowMaker.read", refused)
    docs.sync(base_url=BASE)
    assert {**docs.rows()["docs/files/paper.pdf"], "position": 0} == {**before, "position": 0}
    docs.sync(base_url="https://other.example/")
    assert docs.rows()["docs/files/paper.pdf"]["url"] == "https://other.example/files/paper.pdf"


def test_a_moved_document_keeps_its_id_and_a_changed_one_gets_a_version(docs: Docs) -> None:
    docs.sync()
    page_id = docs.rows()["docs/files/paper.pdf"]["page_id"]
    (docs.path / "docs/files/paper.pdf").rename(docs.path / "docs/moved.pdf")
    assert docs.sync().deleted == 0
    assert docs.rows()["docs/moved.pdf"]["page_id"] == page_id
    docs.write("docs/moved.pdf", pdf("another edition"))
    docs.sync()
    assert (docs.rows()["docs/moved.pdf"]["page_id"], docs.rows()["docs/moved.pdf"]["version"]) == (page_id, 2)

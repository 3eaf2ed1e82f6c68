"""A folder of documents: what changes, what is renamed, what cannot be read, and what nothing costs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources.pdf_writer import pdf

from rag_assets.sources.base import SourceError, SyncResult
from rag_assets.sources.documents.document_pages import DocumentReading, Known, identify
from rag_assets.sources.documents.folder import DocumentFolder
from rag_serving.config.sources import Files


class Folder:
    """Each sync gets what the last one left."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "docs"
        self.path.mkdir()
        self.originals = folder / "originals"
        self.last: SyncResult | None = None

    def write(self, name: str, content: bytes | str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def source(self, **settings: Any) -> DocumentFolder:
        given = {"kind": "files", "tenant": "acme", "path": self.path, "readers": "everyone", **settings}
        return DocumentFolder("docs", Files(**given), DocumentReading(originals=self.originals))

    def sync(self, **settings: Any) -> SyncResult:
        last = self.last
        self.last = self.source(**settings).sync(last.pages if last else None, last.state if last else {})
        assert json.loads(json.dumps(self.last.state)) == self.last.state
        assert self.last.unaccounted == 0
        return self.last

    def rows(self) -> dict[str, dict[str, Any]]:
        assert self.last is not None
        return {row["title"]: row for row in self.last.pages.to_pylist()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_each_file_is_a_page_of_its_kind(folder: Folder) -> None:
    folder.write("guides/Deploy.md", "# Deploy\n\nRoll out.")
    folder.write("page.html", "<html><body><h1 id='a'>A</h1><p>B</p></body></html>")
    folder.write("LICENSE", "Apache License")
    folder.write("run.sh", "echo hello")
    folder.write("report.bin", pdf("one page"))
    folder.write("two.pdf", pdf("first", "second"))
    result = folder.sync()
    rows = folder.rows()
    assert {title: row["body_format"] for title, row in rows.items()} == {
        "Deploy": "markdown",
        "page": "html",
        "LICENSE": "text",
        "run.sh": "markdown",
        "report": "blocks",
        "two": "blocks",
    }
    assert (result.seen, result.changed, result.failures) == (6, 6, ())
    assert rows["two"]["original"]["page_count"] == 2
    assert rows["Deploy"]["url"] == f"/p/{rows['Deploy']['page_id']}"
    assert all(page_id.startswith("doc") for page_id in result.pages["page_id"].to_pylist())


def test_links_lead_where_the_folder_is_served(folder: Folder) -> None:
    folder.write("a b/c#.md", "text")
    folder.sync(base_url="https://docs.example/x/")
    assert folder.rows()["c#"]["url"] == "https://docs.example/x/a%20b/c%23.md"


def test_what_cannot_be_read_has_a_reason_and_stops_nothing(folder: Folder) -> None:
    folder.write("good.md", "text")
    folder.write("broken.pdf", b"%PDF-1.7 and then nothing")
    folder.write("empty.txt", "  \n")
    folder.write("image.gif", b"GIF89a\x00")
    folder.write("zip.md", b"PK\x03\x04\x00")
    folder.write("large.txt", "x" * 2000)
    result = folder.sync(max_file_bytes=1000)
    assert list(folder.rows()) == ["good"]
    reasons = sorted(why for _, why in (*result.excluded, *result.failures))
    assert [why.partition(": ")[0] for why in reasons] == [
        "broken.pdf",
        "empty.txt",
        "image.gif",
        "large.txt",
        "zip.md",
    ]
    assert result.failed == 2  # what is no whole zip might have been anything


def test_a_changed_file_gets_a_version_and_the_others_stay(folder: Folder) -> None:
    folder.write("a.md", "one")
    folder.write("b.md", "two")
    folder.sync()
    before = folder.rows()
    folder.write("a.md", "other")
    result = folder.sync()
    assert (result.changed, result.deleted) == (1, 0)
    assert folder.rows()["a"]["version"] == 2
    assert folder.rows()["b"] == before["b"]


def test_a_version_that_cannot_be_read_leaves_the_one_before(folder: Folder) -> None:
    folder.write("a.pdf", pdf("first version"))
    folder.sync()
    folder.write("a.pdf", b"%PDF-1.4 broken")
    result = folder.sync()
    assert result.failed == 1
    assert result.failures[0][1].endswith("its last version stays")
    assert "first version" in folder.rows()["a"]["body"]
    assert folder.sync().failures == result.failures  # and is not tried again


def test_a_renamed_file_keeps_its_page(folder: Folder) -> None:
    for name in "abcdef":
        folder.write(f"{name}.md", f"text of {name}")
    folder.sync()
    before = folder.rows()["a"]["page_id"]
    (folder.path / "a.md").rename(folder.path / "renamed.md")
    folder.write("a.md", "another text at the old name")
    folder.sync()
    assert folder.rows()["a"]["page_id"] == before  # the name is still there: it is the same page, changed
    (folder.path / "b.md").rename(folder.path / "moved.md")
    page_id = folder.rows()["b"]["page_id"]
    result = folder.sync()
    assert (folder.rows()["moved"]["page_id"], folder.rows()["moved"]["version"]) == (page_id, 1)
    assert result.deleted == 0


def test_two_files_of_one_content_are_not_taken_for_one_that_was_renamed(folder: Folder) -> None:
    for name in ("a", "b", "x", "y", "z"):
        folder.write(f"{name}.md", "same text" if name in "ab" else name)
    folder.sync(max_deleted_share=1)
    before = {row["page_id"] for row in folder.rows().values()}
    (folder.path / "a.md").rename(folder.path / "c.md")
    (folder.path / "b.md").rename(folder.path / "d.md")
    folder.sync(max_deleted_share=1)
    assert len({row["page_id"] for row in folder.rows().values()} - before) == 2


def test_a_folder_that_is_gone_or_empty_deletes_nothing(folder: Folder) -> None:
    with pytest.raises(SourceError, match="holds no file"):
        folder.sync()
    for number in range(10):
        folder.write(f"{number}.md", str(number))
    folder.sync()
    for number in range(5):
        (folder.path / f"{number}.md").unlink()
    with pytest.raises(SourceError, match="max_deleted_share"):
        folder.sync()
    assert folder.sync(max_deleted_share=1).deleted == 5


def test_links_out_of_the_folder_are_not_followed(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    folder.write("a.md", "text")
    (folder.path / "link.md").symlink_to(tmp_path / "secret.md")
    (folder.path / "folder").symlink_to(tmp_path)
    os.mkfifo(folder.path / "pipe.md")
    assert folder.sync().seen == 1


def test_without_readers_nobody_reads_a_folder(folder: Folder) -> None:
    folder.write("a.md", "text")
    result = folder.sync(readers="from_source")
    assert result.pages["readers"].to_pylist() == ["nobody"]
    assert "set sources.docs.readers" in result.notes[0]


def test_a_thousand_files_unchanged_take_less_than_a_second(folder: Folder) -> None:
    for number in range(1000):
        folder.write(f"{number % 10}/{number}.md", f"# Page {number}\n\n" + f"Some text of page {number}. " * 40)
    first = folder.sync()
    fingerprint = folder.source().fingerprint()
    began = time.process_time()  # the machine may be busy with other things
    assert folder.source().fingerprint() == fingerprint
    second = folder.sync()
    seconds = time.process_time() - began
    assert (second.changed, second.seen) == (0, 1000)
    assert second.pages == first.pages
    assert seconds < 1.0


names = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("0123"), max_size=6)


@given(before=names, after=names)
def test_ids_are_unique_and_those_of_names_that_stay_never_move(before: dict[str, str], after: dict[str, str]) -> None:
    first = identify("k", before, {})
    known = {name: Known(first[name], digest, 1, []) for name, digest in before.items()}
    second = identify("k", after, known)
    assert len(set(second.values())) == len(after)
    assert all(second[name] == first[name] for name in before.keys() & after.keys())

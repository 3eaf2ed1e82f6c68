"""Attached files become rows that only the readers of their page may see; what is not read is told."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sources.export_writer import Export
from sources.pdf_writer import pdf
from sources.stand_in_site import page
from support.constants import section_of

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources import SourceError, SyncResult, open_source
from rag_assets.sources.envelope import Attached, attachment_rows
from rag_assets.steps.formats.blocks import without_note
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.sections import Documents
from rag_serving.config.sources import ConfluenceDump, ConfluenceExport

SITE = "https://wiki.example"
FILES = {
    "notes.txt": b"Cranes stop at 20 m/s.",
    "ports.csv": b"port,berths\nBusan,40\n",
    "data.json": b'{"limit": 20}',
    "manual.pdf": pdf("Mooring lines are checked hourly."),
    "photo.png": b"\x89PNG",
    "empty.txt": b"  \n",
}


def dump(tmp_path: Path, *pages: dict[str, Any], zipped: bool = False) -> Path:
    folder = tmp_path / "dump"
    for one in pages:
        (folder / "pages").mkdir(parents=True, exist_ok=True)
        (folder / "pages" / f"{one['id']}.json").write_text(json.dumps(one))
    for name, content in FILES.items():
        file = folder / "attachments" / "1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    if not zipped:
        return folder
    with zipfile.ZipFile(tmp_path / "dump.zip", "w") as out:
        for file in folder.rglob("*.*"):
            out.write(file, f"top/{file.relative_to(folder)}")
    return tmp_path / "dump.zip"


def export(tmp_path: Path, *pages: dict[str, Any]) -> Path:
    written = Export().add(*pages)
    for number, (name, content) in enumerate(FILES.items()):
        written.attach("1", name, content, attachment_id=str(700 + number), version=2)
    return written.write(tmp_path / "export.zip")


def sync(path: Path, last: SyncResult | None = None, **more: Any) -> SyncResult:
    given = {"tenant": "acme", "path": path, "readers": "everyone", "attachments": "all", **more}
    if path.name == "export.zip":
        settings: Any = ConfluenceExport(kind="confluence_export", base_url=SITE, **given)
    else:
        settings = ConfluenceDump(kind="confluence_dump", **given)
    result = open_source("eng", settings, path).sync(last.pages if last else None, last.state if last else {})
    assert result.unaccounted == 0
    return result


def by_title(result: SyncResult) -> dict[str, dict[str, Any]]:
    return {row["title"]: row for row in result.pages.to_pylist()}


PAGES = (page(9, groups=["staff"]), page(1, "Storms", parents=[9], groups=["ops"], labels=["wind"]), page(2))


@pytest.mark.parametrize("make", ["folder", "zip", "export"])
def test_files_are_rows_under_the_readers_of_their_page(tmp_path: Path, make: str) -> None:
    path = export(tmp_path, *PAGES) if make == "export" else dump(tmp_path, *PAGES, zipped=make == "zip")
    result = sync(path)
    rows = by_title(result)
    notes = rows["notes.txt (attachment of Storms)"]
    assert notes["readers"] == rows["Storms"]["readers"] == "group:ops&group:staff"
    assert notes["ancestors"] == ["9", "1"]
    assert notes["ancestor_titles"] == ["Page 9", "Storms"]
    assert notes["labels"] == ["wind"]
    assert notes["page_id"].startswith("att")
    assert len(rows) == 3 + 4
    assert sorted(why.partition(" of page 1: ")[0] for _, why in result.excluded) == ["empty.txt", "photo.png"]
    assert result.seen == len(rows) + len(result.excluded)
    assert result.failed == 0


def test_rows_of_files_become_sections(tmp_path: Path) -> None:
    result = sync(dump(tmp_path, *PAGES))
    found = build_sections(result.pages)
    assert found.failures == []
    told = {row["heading"].partition(" ")[0]: row["text"] for row in found.sections.to_pylist()}
    assert told["manual.pdf"] == "Mooring lines are checked hourly."
    assert told["data.json"] == '```json\n{"limit": 20}\n```'
    assert told["ports.csv"].splitlines()[-1] == "| Busan | 40 |"


def test_a_link_to_a_pdf_opens_its_page(tmp_path: Path) -> None:
    written = Export().add(page(1))
    written.attach("1", "manual.pdf", pdf("First page.", "Second page."))
    rows = build_sections(sync(written.write(tmp_path / "export.zip")).pages).sections.to_pylist()
    assert [(row["anchor"], row["text"]) for row in rows[1:]] == [("page=1", "First page."), ("page=2", "Second page.")]


def test_an_export_gives_the_link_and_the_version_of_a_file(tmp_path: Path) -> None:
    rows = by_title(sync(export(tmp_path, *PAGES), id_prefix="kb."))
    notes = rows["notes.txt (attachment of Storms)"]
    assert notes["page_id"] == "kb.att700"
    assert notes["url"] == f"{SITE}/download/attachments/1/notes.txt"
    assert (notes["version"], notes["updated_at"].isoformat()) == (2, "2026-03-01T10:00:00+00:00")


@pytest.mark.parametrize("make", ["folder", "export"])
def test_without_the_option_no_file_is_looked_at(tmp_path: Path, make: str) -> None:
    path = export(tmp_path, *PAGES) if make == "export" else dump(tmp_path, *PAGES)
    result = sync(path, attachments="none")
    assert (len(result.pages), result.seen, result.failed, result.excluded) == (3, 3, 0, ())


def test_what_is_not_wanted_is_excluded_with_its_reason(tmp_path: Path) -> None:
    reasons = dict(sync(export(tmp_path, *PAGES), attachments="text", max_file_bytes=21).excluded)
    assert "PDF files are read with attachments: all" in reasons["att703"]
    assert "larger than 21 bytes" in reasons["att700"]
    assert "type" in reasons["att704"]


def test_a_second_sync_changes_nothing_and_a_new_file_does(tmp_path: Path) -> None:
    path = dump(tmp_path, *PAGES)
    first = sync(path)
    again = sync(path, first)
    assert (again.changed, again.deleted) == (0, 0)
    (path / "attachments/1/notes.txt").write_text("Cranes stop at 18 m/s.")
    (path / "attachments/1/data.json").unlink()
    third = sync(path, again)
    assert (third.changed, third.deleted) == (1, 1)
    assert third.state["fingerprint"] != again.state["fingerprint"]


def test_a_file_that_the_export_lacks_fails_alone_and_keeps_its_last_version(tmp_path: Path) -> None:
    written = Export().add(page(1))
    written.attach("1", "notes.txt", b"Old words.", attachment_id="700", version=1)
    first = sync(written.write(tmp_path / "export.zip"))
    written = Export().add(page(1, groups=["ops"]))
    written.attach("1", "notes.txt", b"New words.", attachment_id="700", version=2)
    written.files.clear()
    second = sync(written.write(tmp_path / "export.zip"), first)
    (kept,) = (row for row in second.pages.to_pylist() if row["page_id"] == "att700")
    assert (kept["body"], kept["version"], kept["readers"]) == ("Old words.", 1, "group:ops")
    assert [page_id for page_id, _ in second.failures] == ["att700"]


def test_old_and_deleted_versions_of_a_file_are_not_read(tmp_path: Path) -> None:
    written = Export().add(page(1))
    for attachment_id in ("700", "701", "702"):
        written.attach("1", "notes.txt", attachment_id.encode(), attachment_id=attachment_id)
    old = '<property name="originalVersion" class="Attachment"><id name="id">700</id></property></object>'
    texts = [one.replace("</object>", old) if ">701<" in one else one for one in written.objects]
    written.objects[:] = [one.replace("[current]", "[deleted]") if ">702<" in one else one for one in texts]
    rows = sync(written.write(tmp_path / "export.zip")).pages.to_pylist()
    assert [row["page_id"] for row in rows] == ["1", "att700"]


def test_without_the_reader_of_pdf_the_error_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(SourceError, match=r"citelock\[pdf\]"):
        sync(export(tmp_path, *PAGES))
    assert sync(export(tmp_path, *PAGES), attachments="text").failed == 0


def test_a_file_that_was_too_much_is_fetched_again_only_where_the_limit_is_another(tmp_path: Path) -> None:
    [page_row] = sync(dump(tmp_path, page(2))).pages.to_pylist()
    fetched: list[str] = []

    def file(name: str) -> Attached:
        return Attached("7", "2", name, lambda: fetched.append(name) or b"line\n" * 1000, version=3)  # type: ignore[func-returns-value]

    settings = ConfluenceDump(kind="confluence_dump", tenant="acme", path=tmp_path, attachments="text")
    small, usual = LimitedReader(section_of(Documents, max_text_chars=1000)), LimitedReader(Documents())
    late, later = (f"it exceeds {seconds} s of parsing (documents.max_seconds)" for seconds in (30, 31))
    for known, rows in ((late, 0), (later, 1)):
        textless: dict[str, Any] = {"att7": [3, "a.txt", known]}
        assert len(attachment_rows([file("a.txt")], {"2": page_row}, settings, {}, textless, usual).rows) == rows
    assert fetched == ["a.txt"]

    cut = attachment_rows([file("b.txt")], {"2": page_row}, settings, {}, {}, small).rows
    assert without_note(cut["att7"]["body"])[1] == "cut at 1,000 characters of text (documents.max_text_chars)"
    assert attachment_rows([file("b.txt")], {"2": page_row}, settings, cut, {}, small).rows == cut
    whole = attachment_rows([file("b.txt")], {"2": page_row}, settings, cut, {}, usual).rows
    assert whole["att7"]["body"] == "line\n" * 1000
    assert fetched == ["a.txt", "b.txt", "b.txt"]

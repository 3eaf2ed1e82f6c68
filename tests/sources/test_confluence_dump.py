"""A dump is read whole; what is broken in it is told, and stops nothing else."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sources.stand_in_site import Envelope, page

from rag_assets.sources import SourceError, SyncResult, open_source
from rag_assets.sources import confluence_dump as limits
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceDump

CWIKI = Path(__file__).parents[3] / "shared/data/cwiki"
SAMPLE = Path(__file__).parents[2] / "sample"


def write(folder: Path, *pages: Envelope) -> Path:
    folder.mkdir(exist_ok=True)
    for one in pages:
        (folder / f"{one['id']}.json").write_text(json.dumps(one), encoding="utf-8")
    return folder


def settings(path: Path, **more: Any) -> ConfluenceDump:
    return ConfluenceDump(kind="confluence_dump", **{"tenant": "acme", "path": path, "readers": "everyone", **more})


def sync(path: Path, last: SyncResult | None = None, **more: Any) -> SyncResult:
    source = open_source("eng", settings(path, **more), path)
    return source.sync(last.pages if last else None, last.state if last else {})


def column(result: SyncResult, name: str) -> dict[str, Any]:
    return dict(zip(result.pages["page_id"].to_pylist(), result.pages[name].to_pylist(), strict=True))


def without_restrictions(*pages: Envelope) -> list[Envelope]:
    return [{name: value for name, value in one.items() if name != "restrictions"} for one in pages]


def test_a_second_sync_of_the_same_files_changes_nothing(tmp_path: Path) -> None:
    first = sync(write(tmp_path, page(1), page(2)))
    again = sync(tmp_path, first)
    assert (first.seen, first.changed, first.deleted) == (2, 2, 0)
    assert (again.seen, again.changed, again.deleted) == (2, 0, 0)
    assert again.pages.equals(first.pages)


def test_edits_additions_and_deletions_are_counted(tmp_path: Path) -> None:
    first = sync(write(tmp_path, page(1), page(2), page(3)))
    write(tmp_path, page(2, "New title"), page(4))
    (tmp_path / "3.json").unlink()
    second = sync(tmp_path, first)
    assert (second.seen, second.changed, second.deleted) == (3, 2, 1)
    assert column(second, "title") == {"1": "Page 1", "2": "New title", "4": "Page 4"}


def test_a_truncated_file_is_named_with_its_mend_and_keeps_its_page(tmp_path: Path) -> None:
    first = sync(write(tmp_path, page(1), page(2, users=["ann"])))
    cut = tmp_path / "2.json"
    cut.write_bytes(cut.read_bytes()[:150])
    second = sync(tmp_path, first)
    assert column(second, "readers") == column(first, "readers")
    assert (second.changed, second.deleted, second.failed) == (0, 0, 1)
    page_id, reason = second.failures[0]
    assert page_id == "2"
    assert "2.json: not valid JSON" in reason
    assert "export the page again" in reason


def test_a_kept_page_stays_kept_however_its_file_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, page(1))
    (folder / "other-name.json").write_text(json.dumps(page(2)))
    results = [sync(folder)]
    (folder / "other-name.json").write_text("{")
    for _ in range(2):
        results.append(sync(folder, results[-1]))
        assert set(column(results[-1], "title")) == {"1", "2"}
        assert results[-1].deleted == 0


def test_settings_and_ancestors_narrow_a_kept_page(tmp_path: Path) -> None:
    first = sync(write(tmp_path, page(1), page(2, parents=[1], groups=["ops"])))
    (tmp_path / "2.json").write_text("")
    write(tmp_path, page(1, groups=["staff"]))
    second = sync(tmp_path, first, readers=["group:hq"])
    assert column(second, "readers")["2"] == "group:hq&group:ops&group:staff"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\xfe", b"null", b'{"id": "2"}', b"[" * 100_000])
def test_one_bad_file_does_not_stop_the_others(tmp_path: Path, content: bytes) -> None:
    (write(tmp_path, page(1)) / "2.json").write_bytes(content)
    result = sync(tmp_path)
    assert list(column(result, "title")) == ["1"]
    assert (result.seen, result.failed) == (2, 1)


def test_a_file_past_the_limit_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 2000)
    result = sync(write(tmp_path, page(1), page(2, body="x" * 3000)))
    assert result.failures == (("2.json", "2.json: the file is larger than 2000 bytes"),)


def test_pages_that_are_not_current_are_excluded_with_a_reason(tmp_path: Path) -> None:
    result = sync(write(tmp_path, page(1), page(2, status="archived"), page(3, type="blogpost")))
    assert result.excluded == (
        ("2", "its status is 'archived', not 'current'"),
        ("3", "its type is 'blogpost', not 'page'"),
    )
    assert (result.seen, result.failed) == (3, 0)


def test_an_archived_ancestor_still_narrows(tmp_path: Path) -> None:
    result = sync(write(tmp_path, page(1, status="archived", groups=["ops"]), page(2, parents=[1])))
    assert column(result, "readers") == {"2": "group:ops"}


@pytest.mark.parametrize("names", [("a.json", "b.json"), ("b.json", "a.json")])
def test_of_two_files_of_a_page_the_newest_version_is_kept(tmp_path: Path, names: tuple[str, str]) -> None:
    new, old = names
    (tmp_path / old).write_text(json.dumps(page(1, "Old")))
    (tmp_path / new).write_text(json.dumps(page(1, "New", version={"number": 2})))
    result = sync(tmp_path)
    assert column(result, "title") == {"1": "New"}
    assert [name for name, _ in result.excluded] == [old]
    assert (result.seen, result.indexed, result.unaccounted) == (2, 1, 0)


def test_a_scrape_without_restrictions_is_not_hidden_by_missing_ancestors(tmp_path: Path) -> None:
    result = sync(write(tmp_path, *without_restrictions(page(1, parents=[9]), page(2))))
    assert set(column(result, "readers").values()) == {EVERYONE}


def test_where_restrictions_are_carried_a_missing_ancestor_hides_and_is_told(tmp_path: Path) -> None:
    result = sync(write(tmp_path, page(1, parents=[9]), page(2)))
    assert column(result, "readers") == {"1": NOBODY, "2": EVERYONE}
    assert [page_id for page_id, _ in result.hidden] == ["1"]


@pytest.mark.parametrize("restrictions", [None, {}])
def test_where_restrictions_are_carried_a_page_without_them_hides_itself_and_what_is_below(
    tmp_path: Path, restrictions: object
) -> None:
    [unsaid] = without_restrictions(page(2))
    unsaid = unsaid if restrictions is None else {**unsaid, "restrictions": restrictions}
    result = sync(write(tmp_path, page(1), unsaid, page(3, parents=[2])))
    assert column(result, "readers") == {"1": EVERYONE, "2": NOBODY, "3": NOBODY}
    assert [page_id for page_id, _ in result.hidden] == ["2", "3"]


def test_a_kept_page_does_not_make_a_scrape_one_with_restrictions(tmp_path: Path) -> None:
    first = sync(write(tmp_path, *without_restrictions(page(1, parents=[9]), page(2))))
    (tmp_path / "2.json").write_text("{")
    assert column(sync(tmp_path, first), "readers") == {"1": EVERYONE, "2": EVERYONE}


def test_from_source_lets_nobody_in_and_says_how_to_mend_it(tmp_path: Path) -> None:
    result = sync(write(tmp_path, page(1), page(2)), readers="from_source")
    assert set(column(result, "readers").values()) == {NOBODY}
    assert len(result.notes) == 1
    assert "sources.eng.readers" in result.notes[0]


def test_a_zip_gives_what_its_folder_gives(tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", page(1), page(2, groups=["ops"]))
    archive = tmp_path / "pages.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(folder.iterdir()):
            out.write(file, f"../../outside/{file.name}")
        out.writestr("__MACOSX/._1.json", b"\x00\x05")
        out.writestr("notes.txt", "not a page")
    assert sync(archive).pages.equals(sync(folder).pages)
    assert not (tmp_path.parent / "outside").exists()


def test_a_zip_bomb_is_refused_without_unpacking_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 10_000)
    archive = tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("1.json", json.dumps(page(1)))
        out.writestr("2.json", b" " * 5_000_000)
    assert sync(archive).failures == (("2.json", "2.json: the file is larger than 10000 bytes"),)
    monkeypatch.setattr(limits, "MAX_ARCHIVE_BYTES", 1_000_000)
    with pytest.raises(SourceError, match="unpacks to more than"):
        sync(archive)


def test_a_damaged_entry_of_a_zip_is_a_failure(tmp_path: Path) -> None:
    archive = tmp_path / "pages.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("1.json", json.dumps(page(1, body="<p>intact</p>")))
        out.writestr("2.json", json.dumps(page(2, body="<p>damaged</p>")))
    archive.write_bytes(archive.read_bytes().replace(b"<p>damaged</p>", b"<p>DAMAGED</p>"))
    result = sync(archive)
    assert list(column(result, "title")) == ["1"]
    assert "cannot be unpacked" in result.failures[0][1]


@pytest.mark.parametrize("make", ["missing", "empty", "not a zip"])
def test_a_dump_that_is_not_there_is_one_clear_error(tmp_path: Path, make: str) -> None:
    path = tmp_path / "dump"
    if make == "empty":
        path.mkdir()
    elif make == "not a zip":
        path.write_text("hello")
    for attempt in (lambda: sync(path), lambda: open_source("eng", settings(path), tmp_path).fingerprint()):
        with pytest.raises(SourceError, match="dump ") as caught:
            attempt()
        assert "\n" not in str(caught.value)


def fingerprint(path: Path, **more: Any) -> str | None:
    return open_source("eng", settings(path, **more), path).fingerprint()


def test_the_fingerprint_follows_content_even_when_size_and_time_stay(tmp_path: Path) -> None:
    file = write(tmp_path, page(1, body="<p>aaaa</p>")) / "1.json"
    before, times = fingerprint(tmp_path), file.stat()
    assert fingerprint(tmp_path) == before == sync(tmp_path).state["fingerprint"]
    file.write_text(file.read_text().replace("aaaa", "bbbb"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert fingerprint(tmp_path) != before


def test_the_fingerprint_follows_names_and_settings(tmp_path: Path) -> None:
    write(tmp_path, page(1))
    prints = [
        fingerprint(tmp_path),
        fingerprint(tmp_path, readers=["group:ops"]),
        fingerprint(tmp_path, flavor="cloud"),
        fingerprint(tmp_path, id_prefix="kb."),
        fingerprint(tmp_path, tenant="other"),
    ]
    (tmp_path / "1.json").rename(tmp_path / "one.json")
    assert len({*prints, fingerprint(tmp_path)}) == 6
    (tmp_path / "one.json").rename(tmp_path / "1.json")
    assert fingerprint(tmp_path, schedule="0 * * * *") == prints[0]


def test_progress_counts_the_files(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    source = open_source("eng", settings(write(tmp_path, page(1), page(2))), tmp_path)
    source.sync(None, {}, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_the_sample_restricts_whom_its_readme_says() -> None:
    readers = column(sync(SAMPLE / "ENG"), "readers")
    assert readers["1311701"] == readers["1311712"] == "group:security"
    assert "group:security&" in readers["1311723"]
    assert "user:ines.moreau" in readers["1311723"]
    assert len(readers) - 3 == list(readers.values()).count(EVERYONE)


@pytest.mark.skipif(not CWIKI.exists(), reason="../shared/data/cwiki is absent")
def test_real_pages_are_all_read() -> None:
    result = sync(CWIKI)
    assert (result.seen, result.changed, result.failures, result.hidden) == (300, 300, (), ())
    assert set(column(result, "readers").values()) == {EVERYONE}
    assert set(column(result, "anchor_flavor").values()) == {"datacenter"}

"""Documents in zips and in an object store are pages like files of a folder: nothing is lost, nothing read twice."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sources.stand_in_s3 import Bucket, running

from rag_assets.sources.base import Row, SourceError, SyncResult
from rag_assets.sources.documents.document_pages import DocumentFacts, DocumentReading, RowMaker
from rag_assets.sources.documents.folder import DocumentFolder
from rag_serving.config.sources import Files


def zipped(members: dict[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name, (2026, 11, 1, 10, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


class Documents:
    """A source whose syncs get what the last one left."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.last: SyncResult | None = None

    def source(self, **settings: Any) -> DocumentFolder:
        given = {"kind": "files", "tenant": "acme", "path": self.path, "readers": "everyone", **settings}
        return DocumentFolder("docs", Files(**given), DocumentReading())

    def sync(self, **settings: Any) -> SyncResult:
        last = self.last
        self.last = self.source(**settings).sync(last.pages if last else None, last.state if last else {})
        assert self.last.unaccounted == 0
        return self.last

    def ids(self) -> dict[str, str]:
        """Page ids by title."""
        assert self.last is not None
        return {row["title"]: row["page_id"] for row in self.last.pages.to_pylist()}


def test_members_of_an_archive_in_a_folder_are_pages(tmp_path: Path) -> None:
    inner = zipped({"c.md": "# C", "deeper.zip": zipped({"d.md": "not opened"})})
    members: dict[str, bytes | str] = {"guides/a.md": "# A", "b.txt": "b", "in.zip": inner, "x.exe": b"MZ\0"}
    (tmp_path / "one.zip").write_bytes(zipped(members))
    (tmp_path / "plain.md").write_text("plain")
    docs = Documents(tmp_path)
    result = docs.sync(base_url="https://files.example.org/docs")
    assert set(docs.ids()) == {"a", "b", "c", "deeper", "plain"}
    assert [why for _, why in result.excluded] == ["one.zip/x.exe: it is a program, not a document"]
    urls = {row["title"]: row["url"] for row in result.pages.to_pylist()}
    assert urls["plain"] == "https://files.example.org/docs/plain.md"
    assert urls["a"].startswith("/p/doc")

    first = docs.ids()
    members["b.txt"] = "changed"
    members["moved.md"] = members.pop("guides/a.md")
    (tmp_path / "one.zip").write_bytes(zipped(members))
    result = docs.sync(base_url="https://files.example.org/docs")
    assert docs.ids() == {("moved" if title == "a" else title): one for title, one in first.items()}
    assert result.changed == 2


def test_the_same_content_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    made = RowMaker.read

    def counted(maker: RowMaker, facts: DocumentFacts, content: bytes) -> Row:
        read.append(facts.name)
        return made(maker, facts, content)

    monkeypatch.setattr(RowMaker, "read", counted)
    for name in ("a.md", "b.md", "c.txt"):
        (tmp_path / name).write_text("# Same")
    docs = Documents(tmp_path)
    docs.sync()
    assert sorted(read) == ["a.md", "c.txt"]
    (tmp_path / "0.md").write_text("# Same")
    result = docs.sync()
    assert sorted(read) == ["a.md", "c.txt"]
    rows = {row["title"]: row for row in result.pages.to_pylist()}
    assert set(rows) == {"0", "a", "b", "c"}
    assert rows["0"]["body"] == rows["a"]["body"]
    assert len({row["page_id"] for row in rows.values()}) == 4


def test_what_was_read_of_an_archive_stays_while_it_cannot_be_opened(tmp_path: Path) -> None:
    content = zipped({"a.md": "# A", "b.md": "# B", "c.md": "# C"})
    (tmp_path / "one.zip").write_bytes(content)
    (tmp_path / "d.md").write_text("d")
    docs = Documents(tmp_path)
    docs.sync()
    first = docs.ids()
    (tmp_path / "one.zip").write_bytes(content[:-30])
    result = docs.sync()
    assert docs.ids() == first
    reasons = sorted(why for _, why in result.failures)
    assert reasons[0] == "one.zip/a.md: its archive cannot be opened; its last version stays"
    assert reasons[-1] == "one.zip: it is broken: its end is missing"
    (tmp_path / "one.zip").write_bytes(content)
    assert (docs.sync().failures, docs.ids()) == ((), first)


def test_members_that_are_encrypted_or_bombs_fail_each(tmp_path: Path) -> None:
    content = bytearray(zipped({"a.md": "secret", "b.md": "words", "z.txt": b"0" * 3_000_000}))
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    (tmp_path / "one.zip").write_bytes(content)
    result = Documents(tmp_path).sync()
    assert sorted(why for _, why in result.failures) == [
        "one.zip/a.md: it has a password: remove it, and add the file again",
        "one.zip/z.txt: it unpacks to more than 200 times its size",
    ]


def test_members_are_as_large_as_files_may_be_and_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assets.steps.files.file_text.MOST_BYTES", 1500)
    (tmp_path / "one.zip").write_bytes(zipped({"a.txt": "x" * 900, "b.txt": "y" * 500, "c.txt": "z" * 1001}))
    docs = Documents(tmp_path)
    result = docs.sync(max_file_bytes=1000)
    assert set(docs.ids()) == {"a", "b"}
    assert [why for _, why in result.excluded] == ["one.zip/c.txt: it is larger than 1000 bytes (max_file_bytes)"]


def test_a_zip_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(zipped({"docs/a.md": "# A", "docs/b/c.md": "# C"}))
    docs = Documents(path)
    assert docs.sync().changed == 2
    before = docs.source().fingerprint()
    path.write_bytes(zipped({"docs/a.md": "# A", "docs/b/c.md": "# C"}))
    assert docs.source().fingerprint() == before
    path.write_bytes(zipped({"docs/a.md": "# A2", "docs/b/c.md": "# C"}))
    assert docs.source().fingerprint() != before
    result = docs.sync()
    assert (result.changed, result.seen) == (1, 2)
    path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(SourceError, match="not a readable zip"):
        docs.sync()


def test_a_file_that_is_renamed_in_a_zip_keeps_its_page(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    inner = zipped({"deep/c.md": "# Inner"})
    path.write_bytes(zipped({"docs/a.md": "# A", "docs/b.md": "# B", "in.zip": inner}))
    docs = Documents(path)
    docs.sync()
    before = docs.ids()
    moved = zipped({"deep/renamed.md": "# Inner"})
    path.write_bytes(zipped({"docs/a.md": "# A", "elsewhere/new.md": "# B", "in.zip": moved}))
    docs.sync()
    assert docs.ids() == {"a": before["a"], "new": before["b"], "renamed": before["c"]}
    assert docs.last is not None
    assert set(docs.last.pages["version"].to_pylist()) == {1}


def test_nothing_changed_in_a_zip_of_a_thousand_files_costs_less_than_a_second(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(zipped({f"{n}.md": f"# Page {n}" for n in range(1000)}))
    docs = Documents(path)
    docs.sync()
    took = []
    for _ in range(3):  # what else the machine does slows each down now and then
        began = time.process_time()
        assert docs.source().fingerprint()
        assert docs.sync().changed == 0
        took.append(time.process_time() - began)
    assert min(took) < 1


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running(Bucket()) as found:
        for name, value in {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "r"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
        found.objects = {f"docs/{name}": f"# {name}".encode() for name in ("a.md", "b/c.md", "ü d.md", ".hidden")}
        yield found


def test_objects_below_a_prefix_are_pages_and_are_fetched_once(bucket: Bucket) -> None:
    bucket.objects["other/x.md"] = b"not below the prefix"
    docs = Documents("s3://team/docs")
    result = docs.sync()
    assert set(docs.ids()) == {"a", "c", "ü d"}
    assert result.failures == ()
    before, bucket.fetched = docs.source().fingerprint(), []
    assert (docs.sync().changed, bucket.fetched) == (0, [])
    first = docs.ids()
    bucket.objects["docs/moved.md"] = bucket.objects.pop("docs/a.md")
    assert docs.source().fingerprint() != before
    docs.sync()
    assert docs.ids()["moved"] == first["a"]


def test_a_listing_that_breaks_off_deletes_nothing(bucket: Bucket) -> None:
    docs = Documents("s3://team/docs")
    docs.sync()
    bucket.broken_after = "docs/a"
    with pytest.raises(SourceError, match="s3://team/docs cannot be listed, and nothing was deleted"):
        docs.sync()


def test_a_store_that_is_busy_is_asked_again(bucket: Bucket) -> None:
    bucket.faults = [503, 500]
    assert Documents("s3://team/docs").sync().changed == 3


def test_an_object_that_is_gone_or_changed_meanwhile_fails_alone(bucket: Bucket) -> None:
    docs = Documents("s3://team/docs")
    docs.sync()
    bucket.page = 10
    stale = bucket.listing({"prefix": ["docs/"]})
    bucket.objects["docs/a.md"] = b"# changed"
    bucket.listing = lambda _query: stale  # type: ignore[method-assign]
    bucket.objects.pop("docs/b/c.md")
    docs.last = None
    result = docs.sync()
    why = sorted(reason.partition(": ")[2][:20] for _, reason in result.failures)
    assert why == ["it cannot be fetched", "it changed while it "]


@pytest.mark.usefixtures("bucket")
def test_an_empty_prefix_is_a_mistake_not_a_deletion() -> None:
    with pytest.raises(SourceError, match="holds no object"):
        Documents("s3://team/typo").sync()

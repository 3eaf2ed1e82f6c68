"""The files that pages were read from are kept, published with the generation, and removed when nothing names them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from sources.pdf_writer import pdf
from sources.stand_in_site import page
from support.synthetic import MODEL, TENANT, chunk_row, clustered_vectors, config_for

from rag_assets.publishing.build import build_dense, build_lexical_index, commit_generation
from rag_assets.publishing.documents import gather_originals, remove_unnamed_originals
from rag_assets.publishing.repair import repair
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.sources import SyncResult, open_source
from rag_assets.sources.base import ORIGINALS_FOLDER, keep_original
from rag_assets.state.records import write_sync
from rag_serving.artifacts.schema import GENERATION_CHUNKS, PAGES
from rag_serving.artifacts.store import Store, StoreError, write_table
from rag_serving.config.sources import ConfluenceDump
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import find_damage, find_original_damage

MANUAL = pdf("Mooring lines are checked hourly.", "Second page.")
PDF = "application/pdf"


def dump(folder: Path, content: bytes) -> Path:
    (folder / "pages").mkdir(parents=True, exist_ok=True)
    (folder / "pages" / "1.json").write_text(json.dumps(page(1)))
    file = folder / "attachments" / "1" / "manual.pdf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return folder


def synced(path: Path, folder: Path, last: SyncResult | None = None) -> SyncResult:
    settings = ConfluenceDump(kind="confluence_dump", tenant=TENANT, path=path, readers="everyone", attachments="all")
    source = open_source("eng", settings, folder, originals=folder / ORIGINALS_FOLDER)
    result = source.sync(last.pages if last else None, last.state if last else {})
    write_sync(folder, None, result)
    return result


def attached(result: SyncResult) -> dict[str, Any]:
    row: dict[str, Any]
    (row,) = (row for row in result.pages.to_pylist() if row["original"])
    return row


def test_the_sync_keeps_a_pdf_as_it_came_until_another_takes_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "sources" / "eng"
    first = synced(dump(tmp_path / "dump", MANUAL), folder)
    row = attached(first)
    digest = hashlib.sha256(MANUAL).hexdigest()
    assert row["original"] == {
        "sha256": digest,
        "media_type": PDF,
        "bytes": len(MANUAL),
        "page_count": 2,
        "received_sha256": None,
    }
    assert (folder / ORIGINALS_FOLDER / digest).read_bytes() == MANUAL
    assert attached(synced(dump(tmp_path / "dump", MANUAL), folder, first)) == row
    (folder / ORIGINALS_FOLDER / digest).unlink()
    assert attached(synced(dump(tmp_path / "dump", MANUAL), folder, first)) == row
    assert (folder / ORIGINALS_FOLDER / digest).read_bytes() == MANUAL
    other = MANUAL + b"\n% the same text"
    second = attached(synced(dump(tmp_path / "dump", other), folder, first))
    assert second["content_hash"] != row["content_hash"]
    assert [path.name for path in (folder / ORIGINALS_FOLDER).iterdir()] == [hashlib.sha256(other).hexdigest()]


def generation_with(home: Path, *originals: tuple[str, bytes]) -> Generation:
    """A generation of pages "1" and "2" with these originals of source `eng`."""
    store, config = Store(home), config_for(home)
    kept = {name: keep_original(store.source("eng") / ORIGINALS_FOLDER, content, PDF, 2) for name, content in originals}
    rows = [
        {**dict.fromkeys(PAGES.columns.names), "page_id": name, "version": 1, "original": kept.get(name)}
        for name in ("1", "2", "3")
    ]
    write_table(store.source("eng") / "pages.parquet", PAGES.table(list(rows)), PAGES)
    chunks = GENERATION_CHUNKS.table([chunk_row(name, 0, f"words of page {name}") for name in ("1", "2")])
    build_dense(store, TENANT, chunks, clustered_vectors(2, dimension=8), config, MODEL)
    build_lexical_index(store, TENANT, chunks)
    BuildWorkspace.of(store, TENANT).without_sentences()
    gather_originals(store, TENANT, ["eng"])
    return Generation.open(store, TENANT, commit_generation(store, TENANT, config).id, config)


def test_a_generation_names_the_originals_of_its_pages_alone(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, ("1", MANUAL), ("3", pdf("Not published.")))
    generation.close()
    assert set(generation.originals) == {"1"}
    original = generation.originals["1"]
    assert (original.media_type, original.page_count, original.read()) == (PDF, 2, MANUAL)
    assert [path.name for path in Store(tmp_path).originals(TENANT).iterdir()] == [original.sha256]
    original.path.write_bytes(MANUAL.replace(b"hourly", b"weekly"))
    with pytest.raises(StoreError, match="altered"):
        original.read()
    original.path.unlink()
    with pytest.raises(StoreError, match="citelock build"):
        original.read()


def test_another_original_is_another_generation_and_without_any_it_opens_as_before(tmp_path: Path) -> None:
    without = generation_with(tmp_path)
    one, other = generation_with(tmp_path, ("1", MANUAL)), generation_with(tmp_path, ("1", MANUAL + b"\n"))
    for generation in (without, one, other):
        generation.close()
    assert len({without.id, one.id, other.id}) == 3
    assert not without.originals
    assert "originals.arrow" not in without.manifest.files
    assert "originals.arrow" in one.manifest.files


def test_an_altered_file_of_the_source_is_not_published(tmp_path: Path) -> None:
    folder = Store(tmp_path).source("eng") / ORIGINALS_FOLDER
    facts = keep_original(folder, MANUAL, PDF, 2)
    (folder / facts["sha256"]).write_bytes(MANUAL.replace(b"hourly", b"weekly"))
    generation = generation_with(tmp_path, ("1", MANUAL))
    generation.close()
    assert not generation.originals


def test_originals_go_with_the_last_generation_that_names_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new = generation_with(tmp_path, ("1", MANUAL)), generation_with(tmp_path, ("1", MANUAL), ("2", pdf("Other.")))
    last = generation_with(tmp_path, ("2", pdf("Other.")))
    for generation in (old, new, last):
        generation.close()
    store.originals(TENANT).joinpath(".killed").write_bytes(b"half")
    assert remove_unnamed_originals(store, TENANT, [old.id, new.id, last.id]) == [".killed"]
    assert remove_unnamed_originals(store, TENANT, [last.id]) == [old.originals["1"].sha256]
    assert [path.name for path in store.originals(TENANT).iterdir()] == [last.originals["2"].sha256]
    (store.generation(TENANT, last.id) / "originals.arrow").write_bytes(b"damaged")
    with pytest.raises(StoreError):
        remove_unnamed_originals(store, TENANT, [last.id])
    assert len(list(store.originals(TENANT).iterdir())) == 1


def test_a_damaged_original_is_found_and_restored(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    generation = generation_with(tmp_path, ("1", MANUAL))
    generation.close()
    original, identifier = generation.originals["1"], generation.id
    assert find_original_damage(store, TENANT, identifier, thorough=True) == []
    original.path.unlink()
    original.path.write_bytes(MANUAL.replace(b"hourly", b"weekly"))
    assert find_original_damage(store, TENANT, identifier, thorough=False) == []
    (damage,) = find_damage(store, TENANT, identifier, config, "digests")
    assert damage.part == f"originals/{original.sha256}"
    original.path.unlink()
    assert [one.reason for one in find_damage(store, TENANT, identifier, config, "sizes")] == ["is missing"]
    assert repair(store, TENANT, identifier, config).restored == (f"originals/{original.sha256}",)
    assert original.read() == MANUAL


def test_an_original_that_was_altered_is_linked_again_by_the_next_build(tmp_path: Path) -> None:
    generation = generation_with(tmp_path, ("1", MANUAL))
    generation.close()
    original = generation.originals["1"]
    original.path.unlink()
    original.path.write_bytes(MANUAL.replace(b"hourly", b"weekly"))
    again = generation_with(tmp_path, ("1", MANUAL))
    again.close()
    assert again.originals["1"].read() == MANUAL

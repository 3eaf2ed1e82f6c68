from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.synthetic import EVERYONE, MODEL, TENANT, chunk_table, clustered_vectors, config_for, folder_bytes

from rag_assets.publishing.build import build_dense, build_lexical_index, commit_generation
from rag_assets.publishing.checks import CheckResult, Coverage, check_generation, sample_rows
from rag_assets.publishing.publish import Pruned, PublishError, prune, publish
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import list_generations, published_ids, rollback, show_generation
from rag_serving.indexes.chroma import ShardCollections
from rag_serving.indexes.generation import Generation, place_of

NAMES = [
    "opens", "files", "ids", "vectors", "embedder", "found_by_own_vector", "ann_recall", "page_versions", "coverage",
]  # fmt: skip


def coverage_of(table: pa.Table, explained: Mapping[str, str] | None = None) -> Coverage:
    pages = set(table["page_id"].to_pylist())
    return Coverage({"eng": pages | set(explained or {})}, dict(explained or {}))


def candidate(store: Store, config: Config, table: pa.Table, vectors: np.ndarray[Any, Any] | None = None) -> str:
    vectors = clustered_vectors(len(table)) if vectors is None else vectors
    build_dense(store, TENANT, table, vectors, config, MODEL)
    build_lexical_index(store, TENANT, table.drop_columns(["vector_keys", "shard"]))
    return commit_generation(store, TENANT, config, {"eng": "fingerprint"}).id


def published(store: Store, config: Config, table: pa.Table) -> str:
    name = candidate(store, config, table)
    check_generation(store, TENANT, name, config, coverage_of(table), MODEL)
    publish(store, TENANT, name, config)
    return name


def failed(results: list[CheckResult]) -> dict[str, str]:
    return {result.name: result.detail for result in results if not result.passed}


@pytest.mark.parametrize("most", [50_000, 30])
def test_a_sound_generation_passes_every_check_and_is_published(tmp_path: Path, most: int) -> None:
    store, config, table = Store(tmp_path), config_for(tmp_path, max_shard_chunks=most), chunk_table(100)
    name = candidate(store, config, table)
    results = check_generation(store, TENANT, name, config, coverage_of(table, {"empty": "no text"}), MODEL)
    assert [result.name for result in results] == NAMES
    assert failed(results) == {}
    assert store.current(TENANT) is None
    publication = publish(store, TENANT, name, config)
    assert (publication.generation, publication.previous, publication.changed) == (name, None, True)
    assert store.current(TENANT) == name
    assert not publish(store, TENANT, name, config).changed


def test_an_unchecked_generation_is_not_published(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    name = candidate(store, config, chunk_table(8))
    with pytest.raises(PublishError, match="was not checked"):
        publish(store, TENANT, name, config)
    assert store.current(TENANT) is None


def test_a_page_that_is_neither_indexed_nor_explained_stops_the_publication(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    good = published(store, config, chunk_table(8))
    table = chunk_table(12)
    name = candidate(store, config, table)
    missing = Coverage({"eng": {*table["page_id"].to_pylist(), "lost"}, "ops": {"gone"}}, {"gone": "label archive"})
    results = check_generation(store, TENANT, name, config, missing, MODEL)
    assert failed(results) == {"coverage": "lost (not indexed)"}
    with pytest.raises(PublishError, match=r"not published \(coverage: lost"):
        publish(store, TENANT, name, config)
    assert store.current(TENANT) == good
    assert len(Generation.open(store, TENANT, name, config)) == 12


def test_a_page_that_no_source_enumerated_is_found(tmp_path: Path) -> None:
    store, config, table = Store(tmp_path), config_for(tmp_path), chunk_table(8)
    name = candidate(store, config, table)
    results = check_generation(store, TENANT, name, config, Coverage({"eng": {"0"}}, {}), MODEL)
    assert failed(results) == {"coverage": "1 (not enumerated)"}


def test_a_failed_gate_stops_the_publication(tmp_path: Path) -> None:
    store, config, table = Store(tmp_path), config_for(tmp_path), chunk_table(8)
    name = candidate(store, config, table)
    check_generation(store, TENANT, name, config, coverage_of(table), MODEL)
    with pytest.raises(PublishError, match=r"citation_precision: 0\.8 < 1"):
        publish(store, TENANT, name, config, [CheckResult("citation_precision", False, "0.8 < 1")])
    assert store.current(TENANT) is None


def test_vectors_of_another_model_or_length_are_found(tmp_path: Path) -> None:
    store, config, table = Store(tmp_path), config_for(tmp_path), chunk_table(8)
    name = candidate(store, config, table, clustered_vectors(8) * np.float32(1.5))
    results = failed(check_generation(store, TENANT, name, config, coverage_of(table), "other/model"))
    assert results["vectors"].startswith("0:1:0, 0:1:1")
    assert "'other/model'" in results["embedder"]


def test_two_versions_of_a_page_are_found(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    table = chunk_table(4)
    old = table.set_column(table.column_names.index("version"), "version", pa.array([2] * 4, pa.int32()))
    ids = pc.replace_substring(table["chunk_id"], ":1:", ":2:")
    both = pa.concat_tables([table, old.set_column(0, "chunk_id", ids)])
    name = candidate(store, config, both)
    assert failed(check_generation(store, TENANT, name, config, coverage_of(both), MODEL)) == {"page_versions": "0"}


def shard_of(store: Store, config: Config, name: str) -> Any:
    shard = show_generation(store, TENANT, name).shards[0]
    return ShardCollections.open(place_of(store, TENANT, config)).get(shard.collection)


def lose_chunks(store: Store, config: Config, name: str) -> None:
    shard_of(store, config, name).delete(ids=["3:1:0"])


def change_readers(store: Store, config: Config, name: str) -> None:
    shard_of(store, config, name).update(ids=["3:1:0"], metadatas=[{"readers": "nobody"}])


def change_vectors(store: Store, config: Config, name: str) -> None:
    collection = shard_of(store, config, name)
    ids = collection.get(include=[])["ids"]
    collection.update(ids=ids, embeddings=clustered_vectors(len(ids), seed=77))


def flip_a_bit(store: Store, _: Config, name: str) -> None:
    path = store.generation(TENANT, name) / "vectors.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    path.write_bytes(content)


def lose_a_file(store: Store, _: Config, name: str) -> None:
    (store.generation(TENANT, name) / "chunks.parquet").unlink()


@pytest.mark.parametrize(
    ("damage", "found_by"),
    [
        (lose_chunks, {"opens", "ids", "found_by_own_vector", "ann_recall"}),
        (change_readers, {"ids"}),
        (change_vectors, {"found_by_own_vector", "ann_recall"}),
        (flip_a_bit, {"opens"}),
        (lose_a_file, {"opens"}),
    ],
)
def test_damage_is_found_and_the_next_build_mends_it(
    tmp_path: Path, damage: Callable[[Store, Config, str], None], found_by: set[str]
) -> None:
    store, config, table = Store(tmp_path), config_for(tmp_path), chunk_table(100)
    name = candidate(store, config, table)
    damage(store, config, name)
    results = check_generation(store, TENANT, name, config, coverage_of(table), MODEL)
    assert set(failed(results)) >= found_by
    with pytest.raises(PublishError):
        publish(store, TENANT, name, config)
    if damage in (lose_chunks, change_vectors, lose_a_file):
        again = candidate(store, config, table)
        assert failed(check_generation(store, TENANT, again, config, coverage_of(table), MODEL)) == {}
        publish(store, TENANT, again, config)


def test_rollback_goes_to_the_one_published_before_and_not_to_a_candidate(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    with pytest.raises(StoreError, match="no published generation; run `citelock build`"):
        rollback(store, TENANT, config)
    first = published(store, config, chunk_table(8))
    candidate(store, config, chunk_table(10))
    with pytest.raises(StoreError, match="no published generation before"):
        rollback(store, TENANT, config)
    last = published(store, config, chunk_table(12))
    assert rollback(store, TENANT, config) == first
    assert store.current(TENANT) == first
    assert rollback(store, TENANT, config, last) == last
    with pytest.raises(StoreError, match="does not exist"):
        rollback(store, TENANT, config, "0000")
    assert store.current(TENANT) == last


def test_rollback_to_a_damaged_generation_leaves_the_published_one(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    first = published(store, config, chunk_table(8))
    last = published(store, config, chunk_table(12))
    lose_a_file(store, config, first)
    with pytest.raises(StoreError, match=r"chunks\.parquet is missing"):
        rollback(store, TENANT, config, first)
    assert store.current(TENANT) == last


def test_retention_keeps_the_last_published_and_their_shards(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path, keep_generations=2, max_shard_chunks=20)
    names = [published(store, config, chunk_table(count)) for count in (20, 24, 28, 32)]
    before = folder_bytes(store.generation(TENANT, names[-1]))
    pruned = prune(store, TENANT, config)
    assert set(pruned.generations) == set(names[:2])
    assert {info.id for info in list_generations(store, TENANT)} == set(names[2:])
    for name in names[2:]:
        assert Generation.open(store, TENANT, name, config).dense_faults() == ()
    kept = {name for generation in names[2:] for name in show_generation(store, TENANT, generation).collections}
    assert not kept & set(pruned.collections)
    assert folder_bytes(store.generation(TENANT, names[-1])) == before
    assert prune(store, TENANT, config) == Pruned((), ())


def test_retention_never_removes_the_published_one_however_old(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path, keep_generations=1)
    names = [published(store, config, chunk_table(count)) for count in (8, 12, 16)]
    rollback(store, TENANT, config, names[0])
    prune(store, TENANT, config)
    assert [info.id for info in list_generations(store, TENANT)] == [names[0]]
    assert Generation.open(store, TENANT, names[0], config).dense_faults() == ()


def test_failed_candidates_do_not_push_out_what_one_may_roll_back_to(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path, keep_generations=2)
    names = [published(store, config, chunk_table(count)) for count in (8, 12)]
    candidates = [candidate(store, config, chunk_table(count)) for count in (16, 20, 24)]
    prune(store, TENANT, config)
    assert {info.id for info in list_generations(store, TENANT)} == {*names, candidates[-1]}
    assert Generation.open(store, TENANT, candidates[-1], config).dense_faults() == ()
    assert rollback(store, TENANT, config) == names[0]


def test_shards_of_a_build_that_goes_on_are_not_removed(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    published(store, config, chunk_table(8))
    table = chunk_table(40)
    build_dense(store, TENANT, table, clustered_vectors(40), config, MODEL)
    assert prune(store, TENANT, config).collections == ()
    build_lexical_index(store, TENANT, table)
    name = commit_generation(store, TENANT, config).id
    assert Generation.open(store, TENANT, name, config).dense_faults() == ()


def test_nothing_is_removed_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path, keep_generations=1)
    published(store, config, chunk_table(8))
    last = published(store, config, chunk_table(12))
    (store.generation(TENANT, last) / "manifest.json").write_text("{")
    assert prune(store, TENANT, config).collections == ()
    assert store.current(TENANT) == last


def test_the_list_tells_what_is_published_was_published_and_is_broken(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    assert list_generations(store, TENANT) == []
    first, last = (published(store, config, chunk_table(count)) for count in (8, 12))
    waiting = candidate(store, config, chunk_table(16))
    (store.generations(TENANT) / "half").mkdir()
    found = {info.id: info for info in list_generations(store, TENANT)}
    assert [(found[name].published, found[name].current) for name in (first, last, waiting)] == [
        (True, False), (True, True), (False, False),
    ]  # fmt: skip
    assert (found[last].chunks, found[last].pages) == (12, 3)
    assert found[last].bytes > 1000
    assert "does not exist" in (found["half"].problem or "")
    assert published_ids(store, TENANT) == {first, last}


def test_a_lost_history_still_publishes_and_rolls_back_by_name(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    first, last = (published(store, config, chunk_table(count)) for count in (8, 12))
    (store.tenant(TENANT) / "published.json").write_text("not JSON")
    assert published_ids(store, TENANT) == {last}
    assert rollback(store, TENANT, config, first) == first


def test_the_steps_may_be_repeated(tmp_path: Path) -> None:
    store, config, table = Store(tmp_path), config_for(tmp_path), chunk_table(20)
    name = candidate(store, config, table)
    assert commit_generation(store, TENANT, config).id == name
    shutil.rmtree(store.generation(TENANT, name))
    assert commit_generation(store, TENANT, config).id == name
    assert Generation.open(store, TENANT, name, config).lexical("crane", 3, EVERYONE)


@pytest.mark.parametrize(("count", "sampled"), [(0, 0), (1, 1), (499, 499), (500, 300), (100_000, 300)])
def test_small_generations_are_checked_whole_and_large_ones_by_the_same_sample(count: int, sampled: int) -> None:
    rows = sample_rows(count)
    assert len(rows) == sampled
    assert rows == sample_rows(count)
    assert all(0 <= row < count for row in rows)

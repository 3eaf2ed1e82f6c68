from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.chroma_server import started_chroma
from support.synthetic import EVERYONE, MODEL, TENANT, chunk_table, clustered_vectors, config_for

from rag_assets.publishing.build import build_dense, build_generation
from rag_assets.publishing.shard_writer import ShardContent, ShardWriter, is_sound
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes import chroma
from rag_serving.indexes.chroma import ChromaLocation, DenseError, stored_readers
from rag_serving.indexes.generation import Generation, place_of

VECTORS = clustered_vectors(40)
CONTENT = ShardContent("d" * 32, [f"{n}:1:0" for n in range(40)], VECTORS, ["everyone"] * 30 + ["group:ops"] * 10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Chroma server on loopback."""
    with started_chroma(tmp_path_factory.mktemp("chroma")) as url:
        yield url


@pytest.fixture(params=["chroma", "chroma_server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ChromaLocation:
    url = request.getfixturevalue("server") if request.param == "chroma_server" else None
    return ChromaLocation(tmp_path / "chroma", f"tenant-{tmp_path.name}"[:40].strip("-_"), url)


def test_a_shard_is_built_once_and_then_reused(place: ChromaLocation) -> None:
    collections = ShardWriter.open(place)
    assert collections.ensure(CONTENT) == (f"shard-{CONTENT.digest}", True)
    assert collections.ensure(CONTENT) == (f"shard-{CONTENT.digest}", False)
    assert list(stored_readers(collections, f"shard-{CONTENT.digest}")) == list(
        zip(CONTENT.ids, CONTENT.readers, strict=True)
    )


def test_a_collection_that_lost_chunks_is_built_again_under_a_fresh_name(place: ChromaLocation) -> None:
    collections = ShardWriter.open(place)
    name, _ = collections.ensure(CONTENT)
    collections.get(name).delete(ids=list(CONTENT.ids[:3]))  # type: ignore[union-attr]
    assert collections.ensure(CONTENT) == (f"{name}-2", True)
    assert collections.ensure(CONTENT) == (f"{name}-2", False)


def test_a_collection_with_other_vectors_is_not_sound(place: ChromaLocation) -> None:
    collections = ShardWriter.open(place)
    name, _ = collections.ensure(CONTENT)
    other = replace(CONTENT, vectors=clustered_vectors(40, seed=9))
    assert is_sound(collections.get(name), CONTENT)
    assert not is_sound(collections.get(name), other)


def test_what_a_killed_build_left_is_removed(place: ChromaLocation) -> None:
    collections = ShardWriter.open(place)
    name, _ = collections.ensure(CONTENT)
    collections.client.create_collection("building-" + "0" * 32, embedding_function=None)
    assert collections.remove_unfinished() == ["building-" + "0" * 32]
    assert collections.remove_unnamed(frozenset({name})) == []
    assert collections.remove_unnamed(frozenset()) == [name]
    assert collections.get(name) is None


def by_chroma(home: Path, **indexing: object) -> Config:
    """However few rows there are, none is searched exactly first."""
    return config_for(home, dense_search="chroma", **indexing)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 99])
def test_shards_of_any_size_find_their_own_vectors(tmp_path: Path, size: int) -> None:
    config, store = by_chroma(tmp_path), Store(tmp_path)
    vectors = clustered_vectors(size)
    generation = build_generation(store, TENANT, chunk_table(size), vectors, config, MODEL)
    for row, vector in enumerate(generation.vectors(range(size))):
        assert generation.dense(vector, 1, EVERYONE)[0].row == row
    assert len(generation.dense(vectors[0], 1000, EVERYONE)) == size
    assert generation.degraded == ()


@pytest.mark.parametrize("readers", [("everyone",), ("everyone", "group:ops", "everyone")])
def test_recall_against_exact_search_is_nearly_complete(tmp_path: Path, readers: tuple[str, ...]) -> None:
    vectors = clustered_vectors(3000, dimension=64)
    table = chunk_table(3000, readers=readers)
    generation = build_generation(Store(tmp_path), TENANT, table, vectors, by_chroma(tmp_path), MODEL)
    queries = clustered_vectors(50, dimension=64, seed=5)
    found = wanted = 0
    for query in [*queries, *vectors[::100]]:
        exact = {hit.row for hit in generation.exact(query, 80, EVERYONE)}
        found += len(exact & {hit.row for hit in generation.dense(query, 80, EVERYONE)})
        wanted += len(exact)
    assert found / wanted >= 0.99
    assert generation.degraded == ()


def test_many_small_shards_answer_as_one_large(tmp_path: Path) -> None:
    table, vectors = chunk_table(300), clustered_vectors(300)
    one = build_generation(Store(tmp_path / "a"), TENANT, table, vectors, by_chroma(tmp_path / "a"), MODEL)
    many = build_generation(
        Store(tmp_path / "b"), TENANT, table, vectors, by_chroma(tmp_path / "b", max_shard_chunks=40), MODEL
    )
    assert len(one.manifest.shards) == 1
    assert len(many.manifest.shards) >= 8
    assert all(shard.chunks <= 40 for shard in many.manifest.shards)
    for vector in vectors[::20]:
        assert many.dense(vector, 25, EVERYONE) == one.dense(vector, 25, EVERYONE)


def test_only_changed_shards_are_rebuilt(tmp_path: Path) -> None:
    config, store = config_for(tmp_path, max_shard_chunks=40), Store(tmp_path)
    table, vectors = chunk_table(300), clustered_vectors(300)
    first = build_dense(store, TENANT, table, vectors, config, MODEL)
    assert (first.built, first.reused) == (len(first.shards), 0)
    kept = np.array([page != "7" for page in table["page_id"].to_pylist()])
    second = build_dense(store, TENANT, table.filter(kept), vectors[kept], config, MODEL)
    assert (second.built, second.reused) == (1, len(second.shards) - 1)
    third = build_dense(store, TENANT, table, vectors, config, MODEL)
    assert third.built == 0
    other_model = build_dense(store, TENANT, table, vectors, config, "another/model")
    assert other_model.reused == 0


def test_progress_is_told_in_chunks(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    config = config_for(tmp_path, max_shard_chunks=40)
    tell = lambda done, total: seen.append((done, total))  # noqa: E731
    build_dense(Store(tmp_path), TENANT, chunk_table(100), clustered_vectors(100), config, MODEL, tell)
    assert seen == sorted(seen)
    assert seen[-1] == (100, 100)


READERS = ("everyone", "group:ops", "group:staff|user:ann", "nobody")


def restricted(tmp_path: Path, config: Config) -> Generation:
    return build_generation(
        Store(tmp_path), TENANT, chunk_table(400, readers=READERS), clustered_vectors(400), config, MODEL
    )


@pytest.mark.parametrize("most", [50_000, 40])
@pytest.mark.parametrize("mode", ["exact", "chroma"])
def test_a_search_returns_exactly_the_nearest_of_what_may_be_read(tmp_path: Path, most: int, mode: str) -> None:
    generation = restricted(tmp_path, config_for(tmp_path, max_shard_chunks=most, dense_search=mode))
    for classes in ((), ("everyone",), ("everyone", "group:ops"), READERS, ("unknown",)):
        for vector in clustered_vectors(10, seed=3):
            hits = generation.dense(vector, 30, frozenset(classes))
            assert {generation.readers_of(hit.row) for hit in hits} <= set(classes)
            assert hits == generation.exact(vector, 30, frozenset(classes))


@pytest.mark.parametrize(
    ("mode", "limit", "asked"),
    [
        ("auto", 400, False),  # else what an approximate search misses would tell who may read all from who may not
        ("auto", 399, True),
        ("exact", 0, False),
        ("chroma", 1_000_000, True),
    ],
)
def test_the_setting_says_who_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, limit: int, asked: bool
) -> None:
    calls, ask = [], chroma.query
    monkeypatch.setattr("rag_serving.indexes.chroma.EXACT_ROWS", limit)
    monkeypatch.setattr("rag_serving.indexes.chroma.query", lambda *given: calls.append(given) or ask(*given))
    generation = restricted(tmp_path, config_for(tmp_path, dense_search=mode))
    vector = clustered_vectors(1)[0]
    assert generation.dense(vector, 30, frozenset(READERS)) == generation.exact(vector, 30, frozenset(READERS))
    assert bool(calls) is asked


def test_a_reader_class_that_chroma_has_wrong_opens_nothing(tmp_path: Path) -> None:
    config, store = by_chroma(tmp_path), Store(tmp_path)
    generation = restricted(tmp_path, config)
    collection = ShardWriter.open(place_of(store, TENANT, config)).get(generation.manifest.shards[0].collection)
    assert collection is not None
    ids = generation.chunk_ids()
    collection.update(ids=ids, metadatas=[{"readers": "everyone"}] * len(ids))
    for vector in clustered_vectors(10, seed=3):
        hits = generation.dense(vector, 30, EVERYONE)
        assert {generation.readers_of(hit.row) for hit in hits} == {"everyone"}
        assert hits == generation.exact(vector, 30, EVERYONE)


def test_parallel_searches_do_not_disturb_each_other(tmp_path: Path) -> None:
    generation = restricted(tmp_path, by_chroma(tmp_path, max_shard_chunks=100))
    vectors = generation.vectors(range(0, 400, 4))
    alone = [generation.dense(vector, 10, EVERYONE) for vector in vectors]
    start = threading.Barrier(8)

    def search(number: int) -> bool:
        if number < 8:
            start.wait(10)
        return generation.dense(vectors[number], 10, EVERYONE) == alone[number]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(search, range(len(vectors))))


def test_a_server_holds_each_tenant_in_a_database_of_its_own(server: str, tmp_path: Path) -> None:
    config = by_chroma(tmp_path, chroma_url=server)
    generation = build_generation(Store(tmp_path), TENANT, chunk_table(50), clustered_vectors(50), config, MODEL)
    assert generation.degraded == ()
    assert generation.dense(generation.vectors([7])[0], 3, EVERYONE)[0].row == 7
    assert not (tmp_path / "tenants" / TENANT / "chroma").exists()
    other = ShardWriter.open(ChromaLocation(tmp_path, "another", server))
    assert other.get(generation.manifest.shards[0].collection) is None


def test_a_server_that_is_down_is_named_at_build_and_replaced_by_exact_search_when_asked(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    store, table, vectors = Store(tmp_path), chunk_table(50), clustered_vectors(50)
    with pytest.raises(DenseError, match=r"Chroma at http://127\.0\.0\.1:"):
        build_dense(store, TENANT, table, vectors, config_for(tmp_path, chroma_url=url), MODEL)
    built = build_generation(store, TENANT, table, vectors, config_for(tmp_path), MODEL)
    opened = Generation.open(store, TENANT, built.id, config_for(tmp_path, chroma_url=url))
    assert opened.degraded == ()
    assert "searched exactly" in opened.dense_faults()[0]
    assert opened.degraded == opened.dense_faults()
    assert opened.dense(vectors[3], 5, EVERYONE) == built.exact(vectors[3], 5, EVERYONE)


def test_a_collection_that_vanishes_is_replaced_by_exact_search_and_told(tmp_path: Path) -> None:
    config, store = by_chroma(tmp_path), Store(tmp_path)
    generation = build_generation(store, TENANT, chunk_table(80), clustered_vectors(80), config, MODEL)
    vector = generation.vectors([5])[0]
    before = generation.dense(vector, 10, EVERYONE)
    ShardWriter.open(place_of(store, TENANT, config)).remove_unnamed(frozenset())
    assert generation.dense(vector, 10, EVERYONE) == before
    assert "`citelock generations repair` mends it" in generation.degraded[0]
    assert "is missing" in Generation.open(store, TENANT, generation.id, config).degraded[0]
    assert Generation.open(store, TENANT, generation.id, config_for(tmp_path)).degraded == ()


def test_chunks_that_chroma_no_longer_finds_are_found_anyway(tmp_path: Path) -> None:
    """Live records that `query` does not reach: chroma-core/chroma#7758."""
    config, store = by_chroma(tmp_path), Store(tmp_path)
    generation = build_generation(store, TENANT, chunk_table(30), clustered_vectors(30), config, MODEL)
    collection = ShardWriter.open(place_of(store, TENANT, config)).get(generation.manifest.shards[0].collection)
    assert collection is not None
    collection.delete(ids=generation.chunk_ids()[:10])
    assert len(generation.approximate(generation.vectors([5])[0], 30)) == 20
    assert len(generation.dense(generation.vectors([5])[0], 30, EVERYONE)) == 30


def test_a_home_that_was_deleted_and_built_again_is_not_written_to_the_old_one(tmp_path: Path) -> None:
    config, store = config_for(tmp_path / "home"), Store(tmp_path / "home")
    first = build_generation(store, TENANT, chunk_table(30), clustered_vectors(30), config, MODEL)
    shutil.rmtree(tmp_path / "home")
    second = build_generation(store, TENANT, chunk_table(30), clustered_vectors(30), config, MODEL)
    assert second.id == first.id
    assert second.dense_faults() == ()
    assert (store.chroma(TENANT) / "chroma.sqlite3").is_file()
    assert second.approximate(second.vectors([3])[0], 1)[0].row == 3

"""Generations too large for graphs of Chroma, or searched exactly: no graphs, and sound in every other way."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import EVERYONE, MODEL, TENANT, chunk_table, clustered_vectors, config_for

from rag_assets.publishing.build import build_generation, has_graphs
from rag_assets.publishing.checks import Coverage, check_generation
from rag_assets.publishing.publish import prune, publish
from rag_assets.publishing.repair import repair
from rag_assets.state.records import tenant_inputs
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import rollback
from rag_serving.indexes.chroma import close_clients
from rag_serving.indexes.exact import FILE
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import find_dense_damage, find_file_damage

COUNT = 3_000


def publish_chunks(store: Store, config: Config, count: int = COUNT, seed: int = 0) -> str:
    table, vectors = chunk_table(count, seed), clustered_vectors(count, seed=seed)
    generation = build_generation(store, TENANT, table, vectors, config, MODEL)
    generation.close()
    coverage = Coverage({"eng": set(table["page_id"].to_pylist())}, {})
    results = check_generation(store, TENANT, generation.id, config, coverage, MODEL)
    assert [result.detail for result in results if not result.passed] == []
    publish(store, TENANT, generation.id, config)
    return generation.id


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_for(tmp_path, max_graph_chunks=COUNT - 1)


def test_a_large_generation_has_no_graphs_passes_every_check_and_finds_what_exact_search_finds(
    tmp_path: Path, config: Config
) -> None:
    store = Store(tmp_path)
    generation = Generation.open(store, TENANT, publish_chunks(store, config), config)
    assert generation.manifest.shards == ()
    assert not store.chroma(TENANT).exists()
    assert generation.degraded == ()
    for query in clustered_vectors(20, seed=7):
        found, exact = generation.dense(query, 80, EVERYONE), generation.exact(query, 80, EVERYONE)
        assert [hit.row for hit in found] == [hit.row for hit in exact]
    generation.close()


def test_graphs_come_and_go_with_the_size(tmp_path: Path, config: Config) -> None:
    store = Store(tmp_path)
    small = publish_chunks(store, config, 100)
    large = publish_chunks(store, config)
    assert Generation.open(store, TENANT, small, config).manifest.shards
    rollback(store, TENANT, config)
    assert store.current(TENANT) == small
    prune(store, TENANT, config)
    assert {path.name for path in store.generations(TENANT).iterdir()} == {small, large}
    assert not find_dense_damage(store, TENANT, small, config, "digests")


def test_repair_mends_a_generation_without_graphs(tmp_path: Path, config: Config) -> None:
    store = Store(tmp_path)
    name = publish_chunks(store, config)
    (store.generation(TENANT, name) / "codes.npy").write_bytes(b"")
    assert find_file_damage(store, TENANT, name, config, "digests")
    repair(store, TENANT, name, config)
    assert not find_file_damage(store, TENANT, name, config, "digests")
    assert not find_dense_damage(store, TENANT, name, config, "digests")


def test_who_asks_for_chroma_gets_graphs_of_any_size(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path, max_graph_chunks=0, dense_search="chroma")
    assert Generation.open(store, TENANT, publish_chunks(store, config, 50), config).manifest.shards


def test_who_asks_for_chroma_where_there_are_no_graphs_is_told(tmp_path: Path, config: Config) -> None:
    store = Store(tmp_path)
    name = publish_chunks(store, config)
    generation = Generation.open(store, TENANT, name, config_for(tmp_path, dense_search="chroma"))
    assert "without Chroma's graphs" in generation.degraded[0]
    vectors = np.load(store.generation(TENANT, name) / FILE)
    assert generation.dense(vectors[5], 1, EVERYONE)[0].row == 5
    generation.close()


def test_what_decides_on_graphs_makes_a_new_build_necessary(tmp_path: Path) -> None:
    configs = [
        config_for(tmp_path),
        config_for(tmp_path, max_graph_chunks=9),
        config_for(tmp_path, dense_search="chroma"),
        config_for(tmp_path, dense_search="exact"),
    ]
    assert len({tenant_inputs(config, {}, MODEL, {}) for config in configs}) == 4
    assert [has_graphs(config, 10) for config in configs] == [True, False, True, False]


@pytest.mark.parametrize("same", [24, 400])
def test_vectors_that_are_all_the_same_keep_no_other_from_being_found(tmp_path: Path, same: int) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    table, vectors = chunk_table(same + 40), clustered_vectors(same + 40)
    noise = np.random.default_rng(3).normal(scale=1e-7, size=(same, vectors.shape[1])).astype(np.float32)
    vectors[-same:] = vectors[-1] + noise  # as models give them for texts of which they know no word
    generation = build_generation(store, TENANT, table, vectors, config, MODEL)
    generation.close()
    assert bool(generation.manifest.shards) == (same <= 24)
    coverage = Coverage({"eng": set(table["page_id"].to_pylist())}, {})
    results = check_generation(store, TENANT, generation.id, config, coverage, MODEL)
    assert [result.detail for result in results if not result.passed] == []


def test_where_chroma_is_not_installed_small_generations_are_searched_and_others_name_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    name = publish_chunks(store, config, 50)
    close_clients()
    monkeypatch.setitem(sys.modules, "chromadb", None)
    vector = clustered_vectors(1, seed=7)[0]
    with closing(Generation.open(store, TENANT, name, config)) as generation:
        assert generation.degraded == ()
        assert len(generation.dense(vector, 10, EVERYONE)) == 10
    by_graphs = config_for(tmp_path, dense_search="chroma")
    with closing(Generation.open(store, TENANT, name, by_graphs)) as generation:
        assert len(generation.dense(vector, 10, EVERYONE)) == 10
        assert "pip install 'citelock[chroma]'" in generation.degraded[0]

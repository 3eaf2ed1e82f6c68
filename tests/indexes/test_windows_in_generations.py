"""Generations whose long passages have several vectors: found, filtered, checked, altered and restored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for

from evals.evaluation.bench import with_column
from rag_assets.publishing.arrange import BuildError
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.checks import Coverage, check_generation
from rag_assets.publishing.passage_vectors import count_vectors, vectors_at
from rag_assets.publishing.repair import repair
from rag_assets.publishing.shard_writer import ShardWriter
from rag_assets.state.content_cache import SEAL_PURPOSE, VectorCache, vector_key
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store, StoreError, read_table, write_mapped
from rag_serving.indexes import generation as opening
from rag_serving.indexes.generation import Generation, place_of
from rag_serving.indexes.generation_parts import MAPPED_FILE
from rag_serving.indexes.integrity import find_damage

CHUNKS, DIMENSION = 300, 24
READERS = ("everyone", "group:ops")
QUERIES = clustered_vectors(8, DIMENSION, seed=9)

Vectors = NDArray[np.float32]


def counts() -> NDArray[np.int64]:
    """One vector for half of the chunks, up to six for the others."""
    random = np.random.default_rng(2)
    return np.where(random.random(CHUNKS) < 0.5, 1, random.integers(2, 7, CHUNKS))


@cache
def content() -> tuple[pa.Table, Vectors]:
    """Chunks and vectors in an order that is not the generation's."""
    texts = [[f"text {row}.{number}" for number in range(count)] for row, count in enumerate(counts().tolist())]
    keys = [[vector_key(MODEL, text) for text in own] for own in texts]
    table = with_column(chunk_table(CHUNKS, readers=READERS), "vector_keys", keys)
    vectors = clustered_vectors(int(counts().sum()), DIMENSION)
    order = np.random.default_rng(5).permutation(CHUNKS)
    starts = np.cumsum(counts()) - counts()
    places = np.concatenate([np.arange(starts[row], starts[row] + counts()[row]) for row in order])
    return table.take(pa.array(order)), vectors[places]


def built(home: Path, **indexing: Any) -> Generation:
    table, vectors = content()
    return build_generation(Store(home), TENANT, table, vectors.copy(), config_for(home, **indexing), MODEL)


def expected(query: Vectors) -> dict[str, float]:
    """Return for every chunk the largest cosine of its vectors, from what was given to the build."""
    table, vectors = content()
    scores, borders = (
        np.einsum("ij,j->i", vectors, query),
        np.cumsum([len(k) for k in table["vector_keys"].to_pylist()]),
    )
    return dict(
        zip(table["chunk_id"].to_pylist(), [part.max() for part in np.split(scores, borders[:-1])], strict=True)
    )


@pytest.fixture(params=["codes", "no codes", "chroma", "many shards"])
def generation(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generation]:
    monkeypatch.setattr(opening, "CODED_ROWS", 1 if request.param == "codes" else 10**6)
    indexing = {"chroma": {"dense_search": "chroma"}, "many shards": {"dense_search": "chroma", "max_shard_chunks": 40}}
    made = built(tmp_path, **indexing.get(request.param, {}))
    yield made
    made.close()


def test_as_many_passages_are_found_as_are_asked_for_by_their_nearest_windows(generation: Generation) -> None:
    for query, groups in product(QUERIES, (frozenset[str](), frozenset({"ops"}))):
        view = generation.for_reader(Principal(TENANT, None, groups))
        true = expected(query)
        readable = {
            generation.chunk_ids()[row] for row in range(CHUNKS) if view.row_of(generation.chunk_ids()[row]) is not None
        }
        for k in (1, 10, 100, 1000):
            hits = view.dense(query, k)
            found = view.chunk_ids([hit.row for hit in hits])
            assert len({*found}) == len(found) == min(k, len(view))
            best = sorted((true[chunk_id] for chunk_id in readable), reverse=True)[:k]
            assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-6)
            assert [true[chunk_id] for chunk_id in found] == pytest.approx(best, abs=1e-6)
    assert generation.degraded == ()


def test_filters_narrow_the_search_to_passages_and_similarities_are_those_of_the_search(generation: Generation) -> None:
    view = generation.for_reader(Principal(TENANT))
    among = view.mask([hit.row for hit in view.dense(QUERIES[0], 37)])
    hits = view.dense(QUERIES[1], 50, among)
    rows = np.array([hit.row for hit in hits])
    assert len(rows) == 37
    assert view.similarities(QUERIES[1], rows).tolist() == [hit.score for hit in hits]
    np.testing.assert_allclose(np.linalg.norm(view.vectors(rows.tolist()), axis=1), 1, atol=1e-6)


def test_windows_that_a_reader_may_not_see_change_nothing_of_what_it_finds(tmp_path: Path) -> None:
    whole = built(tmp_path / "whole")
    table, vectors = content()
    readable = np.flatnonzero(np.array(table["readers"].to_pylist()) == "everyone")
    rest = table.take(pa.array(readable))
    vectors = vectors_at(table, vectors, readable)
    alone = build_generation(Store(tmp_path / "a"), TENANT, rest, vectors, config_for(tmp_path / "a"), MODEL)
    for query in QUERIES:
        found = []
        for view in (one.for_reader(Principal(TENANT)) for one in (whole, alone)):
            hits = view.dense(query, 60)
            found.append([*zip(view.chunk_ids([hit.row for hit in hits]), [hit.score for hit in hits], strict=True)])
        assert found[0] == found[1]


def test_the_checks_of_a_candidate_pass_and_the_manifest_counts_its_vectors(tmp_path: Path) -> None:
    generation = built(tmp_path)
    assert generation.manifest.vectors == counts().sum() == count_vectors(generation.table)
    pages = generation.table["page_id"].to_pylist()
    coverage = Coverage({"eng": pages}, {})
    results = check_generation(Store(tmp_path), TENANT, generation.id, config_for(tmp_path), coverage, MODEL)
    assert [result for result in results if not result.passed] == []


def test_passages_of_one_vector_leave_manifest_and_shards_as_they_were(tmp_path: Path) -> None:
    table, vectors = chunk_table(20), clustered_vectors(20)
    generation = build_generation(Store(tmp_path), TENANT, table, vectors, config_for(tmp_path), MODEL)
    assert generation.manifest.vectors is None
    assert generation.vector_table.windows is None
    assert generation.vector_ids() == generation.chunk_ids()
    assert generation.manifest.shards[0].digest == "de0243eddeda75f6246208715451c0de"


def test_vectors_that_are_not_as_many_as_the_chunks_name_are_refused(tmp_path: Path) -> None:
    table, vectors = content()
    with pytest.raises(BuildError, match="came with vectors of shape"):
        build_generation(Store(tmp_path), TENANT, table, vectors[1:], config_for(tmp_path), MODEL)
    nothing = with_column(table, "vector_keys", [[] for _ in range(CHUNKS)])
    with pytest.raises(BuildError, match="names no vector"):
        build_generation(Store(tmp_path), TENANT, nothing, vectors, config_for(tmp_path), MODEL)


def test_one_altered_byte_of_the_map_is_refused(tmp_path: Path) -> None:
    generation = built(tmp_path)
    generation.close()
    path = Store(tmp_path).generation(TENANT, generation.id) / MAPPED_FILE
    whole = path.read_bytes()
    borders = np.array([0, *np.cumsum(counts_in_order(generation))], np.int32).tobytes()
    at = whole.index(borders) + 4 * 7
    path.unlink()  # the build has a link to it
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(StoreError, match=r"chunks\.arrow.*`citelock"):
        Generation.open(Store(tmp_path), TENANT, generation.id, config_for(tmp_path))


def counts_in_order(generation: Generation) -> list[int]:
    return [len(keys) for keys in generation.table["vector_keys"].to_pylist()]


def test_a_shard_that_lost_a_window_is_found_and_restored(tmp_path: Path) -> None:
    generation, store, config = built(tmp_path), Store(tmp_path), config_for(tmp_path)
    name, windows = generation.manifest.shards[0].collection, generation.vector_table.windows
    assert windows is not None
    lost = next(one for one in generation.vector_ids() if one.endswith("#1"))
    generation.close()
    collections = ShardWriter.open(place_of(store, TENANT, config))
    collections.get(name).delete(ids=[lost])  # type: ignore[union-attr]
    found = find_damage(store, TENANT, generation.id, config, "digests")
    assert [str(one) for one in found] == [f"{name} lacks 1 of {windows.vectors} vectors and has 0 others"]
    assert repair(store, TENANT, generation.id, config).left == ()
    assert find_damage(store, TENANT, generation.id, config, "digests") == []


def test_vectors_and_codes_that_are_lost_come_back_from_the_cache(tmp_path: Path) -> None:
    generation, store, config = built(tmp_path), Store(tmp_path), config_for(tmp_path)
    vectors = np.array(generation.vector_table.vectors)
    cache = VectorCache(store.cache(TENANT), MODEL, Seal(store.home, SEAL_PURPOSE))
    keys = [key for own in generation.table["vector_keys"].to_pylist() for key in own]
    cache.keep(keys, vectors)
    generation.close()
    folder = store.generation(TENANT, generation.id)
    for path in (folder / "vectors.npy", folder / "codes.npy", *store.candidate(TENANT).glob("dense/*.npy")):
        path.unlink()
    done = repair(store, TENANT, generation.id, config)
    assert (done.restored, done.left) == (("codes.npy", "vectors.npy"), ())
    again = Generation.open(store, TENANT, generation.id, config)
    np.testing.assert_array_equal(again.vector_table.vectors, vectors)
    again.close()


def test_a_chunk_table_of_the_version_before_is_refused_in_one_line(tmp_path: Path) -> None:
    generation, store = built(tmp_path), Store(tmp_path)
    generation.close()
    folder = store.generation(TENANT, generation.id)
    table = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
    before = GENERATION_CHUNKS.__class__(**{**vars(GENERATION_CHUNKS), "version": GENERATION_CHUNKS.version - 1})
    path = tmp_path / "chunks.parquet.before"
    write_mapped(path, table, before)
    with pytest.raises(StoreError, match="citelock build") as refused:
        opening.table_of(memoryview(path.read_bytes()), path, GENERATION_CHUNKS)
    assert len(str(refused.value).splitlines()) == 1
